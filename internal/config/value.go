package config

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// parse reads one value of the field as a file, a variable or a flag writes it; all three share this one syntax.
func (f *field) parse(text string) (any, error) {
	v := reflect.New(f.typ).Elem()
	digits := strings.ReplaceAll(text, "_", "")
	switch f.typeName() {
	case "string":
		v.SetString(text)
	case "list":
		return splitList(text), nil
	case "bool":
		switch text {
		case "true", "false":
			v.SetBool(text == "true")
		default:
			return nil, f.malformed(text, "true or false")
		}
	case "duration":
		d, err := time.ParseDuration(text)
		if err != nil {
			return nil, f.malformed(text, "a duration with its unit, such as 30s or 1h30m")
		}
		v.SetInt(int64(d))
	case "float":
		x, err := strconv.ParseFloat(digits, 64)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, f.malformed(text, "a finite number")
		}
		v.SetFloat(x)
	case "int":
		if v.CanInt() {
			n, err := strconv.ParseInt(digits, 10, f.typ.Bits())
			if err != nil {
				return nil, f.malformed(text, fmt.Sprintf("a whole number of %d bits", f.typ.Bits()))
			}
			v.SetInt(n)
			break
		}
		n, err := strconv.ParseUint(digits, 10, f.typ.Bits())
		if err != nil {
			return nil, f.malformed(text, fmt.Sprintf("a whole number from 0 to 2^%d-1", f.typ.Bits()))
		}
		v.SetUint(n)
	}
	return v.Interface(), nil
}

func (f *field) malformed(text, want string) error {
	return fmt.Errorf("%s = %q must be %s", f.key, text, want)
}

// splitList splits at commas; blanks around an item do not belong to it, and no text is no items.
func splitList(text string) []string {
	items := []string{}
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// show writes a value the way that a configuration file would hold it, on one line. Go's quoted strings are YAML's.
func show(value any) string {
	switch v := value.(type) {
	case fmt.Stringer: // durations
		return v.String()
	case float64:
		if text := strconv.FormatFloat(v, 'f', -1, 64); len(text) <= 12 {
			return text // not 1e+06
		}
	case []string:
		quoted := make([]string, len(v))
		for i, item := range v {
			quoted[i] = strconv.Quote(item)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	}
	if v := reflect.ValueOf(value); v.Kind() == reflect.String {
		return strconv.Quote(v.String())
	}
	return fmt.Sprint(value)
}
