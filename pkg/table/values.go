package table

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// missing are the texts that stand for no value, some of them as spreadsheets (#N/A), pandas (<NA>) and databases (\N)
// write it; comparison ignores case.
var missing = []string{"", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", `\n`, "?", ".", "-"}

// IsMissing reports whether a text stands for no value: it is empty, or one of NA, N/A, #N/A, <NA>, NaN, null, none,
// \N, ?, . and -.
func IsMissing(text string) bool {
	return slices.Contains(missing, strings.ToLower(strings.TrimSpace(text)))
}

// index is where a column is.
func (t *Table) index(column string) (int, error) {
	at := slices.Index(t.Columns, column)
	if at >= 0 {
		return at, nil
	}
	if near := Nearest(column, t.Columns); near != "" {
		return 0, wrong("there is no column %q: the nearest name is %q", column, near)
	}
	if len(t.Columns) == 1 {
		return 0, wrong("there is no column %q: the header names one column; separate columns by commas, semicolons "+
			"or tabs",
			column)
	}
	return 0, wrong("there is no column %q, nor one of a similar name: the header names %d columns", column,
		len(t.Columns))
}

// Has refuses a column that is not there, and names the nearest one.
func (t *Table) Has(column string) error {
	_, err := t.index(column)
	return err
}

// Nearest is the column whose name differs least, or is the same but for case; empty where none is near.
func Nearest(column string, columns []string) string {
	best, least := "", max(2, len(column)/3)+1
	for _, c := range columns {
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
			return nil, t.noValue(column, i)
		case err != nil:
			return nil, noNumber(err, column, t.lines[i], t.decimal)
		default:
			out[i] = v
		}
	}
	return out, nil
}

// noNumber says why a value is none; err is that of number.
func noNumber(err error, column string, line int, decimal byte) error {
	switch {
	case errors.Is(err, errMarks) && decimal == ',':
		return wrong("column %q has a number with a point in line %d, and this table has decimal commas: "+
			"write numbers without a mark of thousands, and all of them with a comma", column, line)
	case errors.Is(err, errMarks):
		return wrong("column %q has a number with a comma in line %d: write numbers without a mark of thousands, and "+
			"with a decimal point; decimal commas go with semicolons between columns", column, line)
	}
	return wrong("column %q has something else than a finite number in line %d: correct it, or declare the column a "+
		"category", column, line)
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
			return nil, t.noValue(column, i)
		default:
			return nil, fmt.Errorf("%w: column %q has a value in line %d that is not declared: declare all that it "+
				"can have",
				ErrUndeclared, column, t.lines[i])
		}
	}
	return out, nil
}

// ErrMissing and ErrUndeclared are reasons to refuse a value; they wrap ErrTable.
var (
	ErrMissing    = fmt.Errorf("%w: missing value", ErrTable)
	ErrUndeclared = fmt.Errorf("%w: unknown value", ErrTable)
)

func (t *Table) noValue(column string, row int) error {
	return fmt.Errorf("%w: column %q has no value in line %d", ErrMissing, column, t.lines[row])
}

var (
	errNoNumber = errors.New("no finite number")
	errMarks    = errors.New("a mark that is not the decimal mark here")
)

// number reads a finite decimal number.
func number(text string, decimal byte) (float64, error) {
	text = strings.TrimSpace(text)
	if decimal == ',' {
		if strings.Contains(text, ".") && hasDigits(text) {
			return 0, errMarks
		}
		text = strings.Replace(text, ",", ".", 1)
	}
	v, err := strconv.ParseFloat(text, 64)
	switch {
	case err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) && !strings.ContainsAny(text, "xX_"):
		return v, nil
	case strings.Contains(text, ",") && hasDigits(text):
		return 0, errMarks
	}
	return 0, errNoNumber
}

// hasDigits reports whether a text consists of digits and marks.
func hasDigits(text string) bool {
	return strings.ContainsAny(text, "0123456789") && strings.Trim(text, "+-0123456789.,eE") == ""
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
