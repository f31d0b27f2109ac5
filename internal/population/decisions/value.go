package decisions

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/strict"
	"github.com/riffle-dp/riffle/pkg/table"
)

// value is what a row has in a column: JSON, which says what it is, or the text of a cell, which is what it is taken
// for.
type value struct {
	there   bool           // the row has the column
	json    jsontext.Value // nil: a cell
	cell    string
	row     table.Row // that the cell is of, whose table has a decimal mark; none: a point
	at      int       // column of the row
	of      bool      // row is set
	exact   bool      // whatever the text is, it is a value: what is missing is not there
	problem string    // why it cannot be had; no value of it
}

// fields gives the columns of one row, or of one arm in it.
type fields func(column string) value

// missing reports whether there is no value. What stands for none in a table is not a value of it: a category that
// lists such a text has it as a value.
func (v value) missing() bool {
	if v.json != nil {
		return v.json.Kind() == 'n'
	}
	return v.problem == "" && (!v.there || !v.exact && table.IsMissing(v.cell))
}

// reward is a number, or true for 1 and false for 0.
func (v value) reward() (x float64, problem string) {
	text := v.cell
	if v.json != nil {
		text = string(v.json)
	}
	switch {
	case v.problem == "" && strings.EqualFold(text, "true"):
		return 1, ""
	case v.problem == "" && strings.EqualFold(text, "false"):
		return 0, ""
	}
	return v.number()
}

// number is a finite number. A problem says what the value must be.
func (v value) number() (x float64, problem string) {
	switch {
	case v.problem != "":
		return 0, v.problem
	case v.json != nil:
		var err error
		if err = strict.Unmarshal(v.json, &x, strict.Options{}); err == nil {
			return x, ""
		}
		said, _ := errors.AsType[*strict.Error](err)
		if v.json.Kind() == '"' {
			said.Problem += ", without quotes"
		}
		return 0, said.Problem
	}
	if v.of {
		x, err := v.row.Number(v.at)
		if err != nil {
			return 0, "must be a number such as 0.25, without a unit, a percent sign or a mark of thousands; decimal " +
				"commas need semicolons between columns, and are then in all numbers"
		}
		return x, ""
	}
	x, err := strconv.ParseFloat(v.cell, 64)
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) || strings.ContainsAny(v.cell, "xX_") {
		return 0, "must be a number"
	}
	return x, ""
}

// listed is the value with a text in JSON as a cell, for a column of lists: a cell and a text hold them alike.
func (v value) listed() value {
	if v.json == nil || v.json.Kind() != '"' {
		return v
	}
	text, problem := v.text()
	return value{there: true, cell: text, problem: problem}
}

// nested reports whether a value lists lists.
func (v value) nested() bool {
	text := string(v.json)
	if v.json == nil {
		text = v.cell
	}
	list, ok := strings.CutPrefix(strings.TrimSpace(text), "[")
	return ok && strings.HasPrefix(strings.TrimSpace(list), "[")
}

// list reads a list in JSON. A problem names the field in it, if it is of one.
func (v value) list(into any) (field, problem string) {
	text := v.json
	if text == nil {
		text = jsontext.Value(v.cell)
	}
	err := strict.Unmarshal(text, into, strict.Options{})
	said, wrong := errors.AsType[*strict.Error](err)
	switch {
	case !wrong:
		return "", v.problem
	case v.json == nil && said.Field == "":
		return "", "is no list in JSON, of finite numbers: write it as [0, 1], or [[0, 1], [1, 0]] (in Python: " +
			"json.dumps)"
	}
	return said.Field, said.Problem
}

// digits is a whole number as it is written, if it has one way to be written.
var digits = regexp.MustCompile(`^(-?[1-9][0-9]*|0)$`)

// text is a text. A number in JSON is its shortest decimal; a whole number is what is written, of any length.
func (v value) text() (text, problem string) {
	switch {
	case v.problem != "":
		return "", v.problem
	case v.json == nil:
		return v.cell, ""
	}
	switch v.json.Kind() {
	case '"':
		if err := strict.Unmarshal(v.json, &text, strict.Options{}); err != nil {
			return "", "must be a text"
		}
		return text, ""
	case '0':
		if digits.Match(v.json) {
			return string(v.json), ""
		}
		x, problem := v.number()
		return strconv.FormatFloat(x, 'f', -1, 64), problem
	}
	return "", "must be a text or a number"
}

// whole is the whole number that a text of a name is, as programs write it where a column has gaps: 3.0 is 3. 03 is not
// 3, nor is 1e1 10: these are names of their own.
func whole(text string) (string, bool) {
	text = strings.TrimSuffix(text, ".0")
	return text, digits.MatchString(text)
}

// name finds the text among names, exactly or as the same whole number; -1 if it is none of them.
func name(text string, names []string) int {
	at := slices.Index(names, text)
	if at < 0 {
		if same, ok := whole(text); ok {
			at = slices.Index(names, same)
		}
	}
	return at
}

// field is what the schema's field is encoded from: nil where the value is missing.
func (v value) field(f feature.Field) (x any, problem string) {
	if v.json == nil && f.Kind == feature.Category {
		if at := name(v.cell, f.Values); v.problem == "" && at >= 0 {
			return f.Values[at], ""
		}
	}
	if v.missing() {
		return nil, ""
	}
	switch f.Kind {
	case feature.Number, feature.Buckets:
		return some(v.number())
	case feature.Flag:
		return v.flag()
	}
	text, problem := v.text()
	at := name(text, f.Values)
	switch {
	case problem != "":
	case len(text) > feature.MaxText:
		problem = fmt.Sprintf("must be a text of at most %d bytes", feature.MaxText)
	case f.Kind == feature.Category && at >= 0:
		text = f.Values[at]
	case f.Kind == feature.Category && !f.Other:
		problem = fmt.Sprintf("is none of the %d values of the schema: correct it, or give the schema the value or "+
			`"other"`, len(f.Values))
	}
	return some(text, problem)
}

// some is a value unless there is a problem.
func some[T any](x T, problem string) (any, string) {
	if problem != "" {
		return nil, problem
	}
	return x, ""
}

// flag is true or false, or 1 or 0; a table may also say yes or no.
func (v value) flag() (any, string) {
	text := v.cell
	if v.json != nil {
		text = string(v.json)
	}
	text = strings.ToLower(text)
	switch x, problem := v.number(); {
	case v.problem != "":
		return nil, v.problem
	case text == "true", v.json == nil && text == "yes", problem == "" && x == 1:
		return true, ""
	case text == "false", v.json == nil && text == "no", problem == "" && x == 0:
		return false, ""
	}
	return nil, "must be true or false, or 1 or 0"
}
