// Package script has what the scripts of command lines (testdata/script) can say beyond testscript.
package script

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// JSON is the script command
//
//	[!] json FILE PATH [OPERATOR VALUE]
//
// It holds that the JSON in a file, or in stdout, has a value that is not null at a path such as cohorts.0.size, and
// that the value compares with another: = for text and for numbers (equal to 9 digits), < <= > >= for numbers.
func JSON(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 && len(args) != 4 {
		ts.Fatalf("usage: json FILE PATH [OPERATOR VALUE]")
	}
	var value any
	if err := json.Unmarshal([]byte(ts.ReadFile(args[0])), &value); err != nil {
		ts.Fatalf("%s: %v", args[0], err)
	}
	for _, key := range strings.Split(args[1], ".") {
		switch in := value.(type) {
		case map[string]any:
			value = in[key]
		case []any:
			i, err := strconv.Atoi(key)
			if value = nil; err == nil && i >= 0 && i < len(in) {
				value = in[i]
			}
		default:
			value = nil
		}
	}
	holds := value != nil
	if holds && len(args) == 4 {
		var err error
		if holds, err = compares(value, args[2], args[3]); err != nil {
			ts.Fatalf("%s: %v", args[1], err)
		}
	}
	if holds == neg {
		ts.Fatalf("%s of %s is %v", args[1], args[0], value)
	}
}

func compares(value any, operator, text string) (bool, error) {
	got, isNumber := value.(float64)
	if operator == "=" && !isNumber {
		return fmt.Sprint(value) == text, nil
	}
	want, err := strconv.ParseFloat(text, 64)
	if err != nil || !isNumber {
		return false, fmt.Errorf("%v %s %s compares no numbers", value, operator, text)
	}
	switch operator {
	case "=":
		return math.Abs(got-want) <= 1e-9*math.Abs(want), nil
	case "<":
		return got < want, nil
	case "<=":
		return got <= want, nil
	case ">":
		return got > want, nil
	case ">=":
		return got >= want, nil
	}
	return false, fmt.Errorf("unknown operator %q", operator)
}
