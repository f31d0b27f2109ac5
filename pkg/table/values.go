package table

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
)

// missing are the texts that stand for no value; comparison ignores case.
var missing = []string{"", "na", "n/a", "nan", "null", "none", "?", ".", "-"}

// IsMissing reports whether a text stands for no value: it is empty, or one of NA, N/A, NaN, null, none, ?, . and -.
func IsMissing(text string) bool {
	return slices.Contains(missing, strings.ToLower(strings.TrimSpace(text)))
}

// index is where a column is.
func (t *Table) index(column string) (int, error) {
	at := slices.Index(t.Columns, column)
	if at >= 0 {
		return at, nil
	}
	if near := t.near(column); near != "" {
		return 0, wrong("there is no column %q: the nearest name is %q", column, near)
	}
	return 0, wrong("there is no column %q: the header names %d others", column, len(t.Columns))
}

// Has refuses a column that is not there, and names the nearest one.
func (t *Table) Has(column string) error {
	_, err := t.index(column)
	return err
}

// near is the column whose name differs least, or is the same but for case; empty where none is near.
func (t *Table) near(column string) string {
	best, least := "", max(2, len(column)/3)+1
	for _, c := range t.Columns {
		if d := distance(strings.ToLower(c), strings.ToLower(column)); d < least {
			best, least = c, d
		}
	}
	return best
}

// distance is how many letters must be put in, left out or changed (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost++
			}
			before, row[j+1] = row[j+1], min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// Numbers are the values of a column. Where none is given the value is NaN if gaps are allowed, else it is refused.
func (t *Table) Numbers(column string, gaps bool) ([]float64, error) {
	at, err := t.index(column)
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(t.rows))
	for i, row := range t.rows {
		switch v, err := number(row[at], t.decimal); {
		case IsMissing(row[at]) && gaps:
			out[i] = math.NaN()
		case IsMissing(row[at]):
			return nil, wrong("column %q has no value in line %d: say what stands for a missing value",
				column, t.lines[i])
		case errors.Is(err, errBothMarks):
			return nil, wrong("column %q has a number with a point and a comma in line %d: write numbers without a "+
				"mark of thousands", column, t.lines[i])
		case err != nil:
			return nil, wrong("column %q has something else than a finite number in line %d: correct it, or declare "+
				"the column a category", column, t.lines[i])
		default:
			out[i] = v
		}
	}
	return out, nil
}

// Categories are which of the declared values of a column each row has, from 0 on; -1 where none is given, if gaps are
// allowed. A value that is not declared is refused.
func (t *Table) Categories(column string, values []string, gaps bool) ([]int, error) {
	at, err := t.index(column)
	if err != nil {
		return nil, err
	}
	out := make([]int, len(t.rows))
	for i, row := range t.rows {
		text := strings.TrimSpace(row[at])
		switch out[i] = slices.Index(values, text); {
		case out[i] >= 0 || IsMissing(text) && gaps:
		case IsMissing(text):
			return nil, wrong("column %q has no value in line %d: say what stands for a missing value", column, t.lines[i])
		default:
			return nil, wrong("column %q has a value in line %d that is not declared: declare all values that it can have",
				column, t.lines[i])
		}
	}
	return out, nil
}

var (
	errNoNumber  = errors.New("no finite number")
	errBothMarks = errors.New("a point and a comma")
)

// number reads a finite decimal number. Where the decimal mark is a comma a point is one as well, but not both.
func number(text string, decimal byte) (float64, error) {
	text = strings.TrimSpace(text)
	if decimal == ',' {
		if strings.Contains(text, ",") && strings.Contains(text, ".") {
			return 0, errBothMarks
		}
		text = strings.Replace(text, ",", ".", 1)
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || strings.ContainsAny(text, "xX_") {
		return 0, errNoNumber
	}
	return v, nil
}

// object is one line of JSON: names and values, these as texts. Its errors continue "line 3".
func object(line []byte) (map[string]string, error) {
	decoder, out := json.NewDecoder(bytes.NewReader(line)), map[string]string{}
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return nil, errors.New("is no JSON object: write one object for each line")
	}
	for decoder.More() {
		key, err := decoder.Token()
		name, ok := key.(string)
		var value json.RawMessage
		if err != nil || !ok || decoder.Decode(&value) != nil {
			return nil, errors.New("is no JSON object: write one object for each line")
		}
		if _, twice := out[name]; twice {
			return nil, errors.New("names a column twice: name each once")
		}
		var text string
		if json.Unmarshal(value, &text) != nil || string(value) == "null" {
			text = string(value)
		}
		out[name] = text
	}
	if _, err := decoder.Token(); err != nil || decoder.More() || len(out) == 0 {
		return nil, errors.New("is no JSON object with columns: write one object for each line")
	}
	return out, nil
}
