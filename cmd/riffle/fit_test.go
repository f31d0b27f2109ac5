package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/evaluate/fit"
)

// fitFiles writes rows of a linear model as CSV and as JSON lines, with a column that is no number, and their bounds.
func fitFiles(t *testing.T, rows int) (csv, lines, bounds string) {
	t.Helper()
	var a, b strings.Builder
	a.WriteString("age,pressure,city,dose\n")
	draw := rand.New(rand.NewPCG(4, 2))
	for range rows {
		age, dose := 20+60*draw.Float64(), draw.Float64()
		pressure := 90 + 0.7*age - 12*dose + 5*draw.NormFloat64()
		fmt.Fprintf(&a, "%v,%v,Paris,%v\n", age, pressure, dose)
		fmt.Fprintf(&b, `{"age": %v, "dose": %v, "pressure": %v}`+"\n", age, dose, pressure)
	}
	dir := t.TempDir()
	csv, lines, bounds = filepath.Join(dir, "people.csv"), filepath.Join(dir, "people.jsonl"),
		filepath.Join(dir, "b.json")
	for path, text := range map[string]string{csv: a.String(), lines: b.String(),
		bounds: `{"age": [20, 80], "dose": [0, 1], "pressure": [70, 170]}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return csv, lines, bounds
}

func runFit(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, said, err := execute(t, "", append([]string{"fit"}, args...)...)
	return out + said, err
}

// The coefficients of the model are found within six standard errors (false alarm 1e-8 for all of them; the noise is
// the system's and not seeded), in either kind of file and in either trust, and two runs have different noise.
func TestFitFindsTheModel(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	csv, lines, bounds := fitFiles(t, 30_000)
	var before []float64
	for _, args := range [][]string{{csv, "--epsilon", "1", "--features", "age,dose"}, {csv, "--epsilon", "1"},
		{lines, "--epsilon", "1"}, {csv, "--epsilon", "30", "--trust", "local"}} {
		text, err := runFit(t, append(args, "--target", "pressure", "--bounds-file", bounds, "--json")...)
		if err != nil {
			t.Fatal(err)
		}
		var r fit.Result
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatal(err)
		}
		if len(r.Coefficients) != 3 || !r.Reliable || r.Rows != 30_000 || !(r.Epsilon <= 30) || r.Guarantee.Rho == 0 {
			t.Fatalf("%v: %s", args, text)
		}
		var values []float64
		for i, want := range []float64{90, 0.7, -12} {
			c := r.Coefficients[i]
			values = append(values, c.Value)
			if math.Abs(c.Value-want) > 6**c.Deviation || !(*c.Low < c.Value && c.Value < *c.High) ||
				*c.Deviation > 20 {
				t.Errorf("%v: %s is %v with standard error %v, want %v", args, c.Name, c.Value, *c.Deviation, want)
			}
		}
		if before != nil && values[0] == before[0] {
			t.Error("two runs have the same noise")
		}
		before = values
	}
	text, err := runFit(t, csv, "--epsilon", "1", "--target", "pressure", "--bounds-file", bounds)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"(intercept)", "age", "dose", "from (95%)", "epsilon 1.0000 at delta 1e-06",
		"whoever holds the file", "hold if rows are independent, and the target spreads equally"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	text, err = runFit(t, csv, "--epsilon", "0.1", "--trust", "local", "--target", "pressure", "--bounds-file", bounds)
	if err != nil || !strings.Contains(text, "do not interpret") || !strings.Contains(text, "simulation") ||
		!regexp.MustCompile(`coefficient\n(?s:.*) age +-?[\d.e-]+\n`).MatchString(text) {
		t.Errorf("noise that drowns the data: %v\n%s", err, text)
	}
}

// A logistic regression of a target of 0 and 1, which needs no bounds.
func TestFitLogistic(t *testing.T) {
	var text strings.Builder
	text.WriteString("age,relapse\n")
	draw := rand.New(rand.NewPCG(4, 3))
	for range 20_000 {
		age, relapse := 20+60*draw.Float64(), 0
		if draw.Float64() < 1/(1+math.Exp(2-0.05*age)) {
			relapse = 1
		}
		fmt.Fprintf(&text, "%v,%d\n", age, relapse)
	}
	file := filepath.Join(t.TempDir(), "people.csv")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{file, "--family", "logistic", "--target", "relapse", "--bounds", "age=20,80", "--epsilon", "2"}
	out, err := runFit(t, append(args, "--json")...)
	if err != nil {
		t.Fatal(err)
	}
	var r fit.Result
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{-2, 0.05} {
		if c := r.Coefficients[i]; !r.Reliable || math.Abs(c.Value-want) > 6**c.Deviation || *c.Deviation > 0.3 {
			t.Errorf("%+v, want %v", c, want)
		}
	}
	if out, err = runFit(t, args...); err != nil || !strings.Contains(out, "the log odds are linear") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := runFit(t, append(args, "--trust", "local")...); err != nil ||
		!strings.Contains(out, "too large to exclude anything") {
		t.Errorf("logistic and local: %v\n%s", err, out)
	}
	if _, err := runFit(t, append(args, "--family", "poisson")...); err == nil ||
		!strings.Contains(err.Error(), "logistic") {
		t.Errorf("another family: %v", err)
	}
}

func TestFitExplainsWhatItRefuses(t *testing.T) {
	csv, _, bounds := fitFiles(t, 100)
	boundsFile := func(text string) string {
		file := filepath.Join(t.TempDir(), "odd.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	good := []string{csv, "--target", "pressure", "--epsilon", "1", "--bounds-file", bounds}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{csv, "--target", "pressure", "--epsilon", "1", "--bounds", "age=20,80"},
			"without looking at the data"},
		{[]string{csv, "--target", "pressure", "--epsilon", "1"}, "no column but the target has bounds"},
		{append(good, "--features", "age,city", "--bounds", "city=0,1"), "declare the column a category"},
		{append(good, "--category", "city=London,Rome"), "declare all that it can have: --category city=FIRST"},
		{append(good, "--category", "city=Paris"), "two values or more"},
		{append(good, "--category", "city=Paris,Paris"), "different values"},
		{append(good, "--category", "age=1,2"), "has no bounds"},
		{append(good, "--features", "age,weight"), `no column "weight"`},
		{append(good, "--features", "city"), "--category city=FIRST,SECOND"},
		{append(good, "--features", "Dose"), `the nearest name is "dose"`},
		{append(good, "--features", "age,age"), "named twice"},
		{append(good, "--bounds", "weight=0,1"), "no column"},
		{append(good, "--bounds", "age=80,20"), "want COLUMN=LOW,HIGH"},
		{append(good, "--bounds", "age=0,Inf"), "want COLUMN=LOW,HIGH"},
		{append(good, "--bounds", "age"), "want COLUMN=LOW,HIGH"},
		{append(good, "--bounds", "age=0,1e-320"), "can be told apart"},
		{append(good, "--bounds", "age=1e16,10000000000000002"), "can be told apart"},
		{append(good, "--bounds", "age=0,1e300"), "at most 1e+100"},
		{append(good, "--bounds-file", boundsFile(`{"age": [20, 80, 90]}`)), "want [LOW, HIGH]"},
		{append(good, "--bounds-file", boundsFile(`{"age": [0, 1e-320]}`)), "can be told apart"},
		{append(good, "--bounds-file", boundsFile(`{"age": [null, 80]}`)), `"age[0]" is null`},
		{append(good, "--bounds-file", boundsFile(`{"age": [0, 1], "age": [20, 80]}`)), `"age" occurs twice`},
		{append(good, "--bounds-file", boundsFile(`{"city": ["Paris", " Paris"]}`)), "different values"},
		{append(good, "--bounds-file", boundsFile(`{"city": ["Paris"]}`)), "two values or more"},
		{append(good, "--bounds-file", boundsFile(`{"age": ["a", "b"]}`), "--bounds", "age=0,1"), "leave out one"},
		{append(good, "--trust", "trusted"), "shuffle, shares, local or central"},
		{append(good, "--by", "city"), "--category city=FIRST,SECOND,.. with all that are possible"},
		{append(good, "--by", "pressure"), "another column than the target"},
		{append(good, "--by", "city", "--category", "city=London,Rome"), "declares all groups"},
		{append(good, "--by", "city", "--category", "city=Paris,Rome", "--features", "city"), "named twice"},
		{append(good, "--budget", "2"), "name its file with --ledger"},
		{append(good, "--delta", "0.5"), "take at most 0.001"},
		{append(good, "--delta", "0.002"), "take at most 0.001"},
		{append(good, "--delta", "1e-310"), "take a number from 1e-20"},
		{append(good, "--delta", "0"), "--delta"},
		{append(good, "--epsilon", "1e-7"), "take a number from 1e-06"},
		{append(good, "--epsilon", "101"), "take a number from 1e-06 to 100"},
		{append(good, "--missing", "drop"), "refuse or middle"},
		{append(good, "--rows", "7"), "--rows is for --dry-run"},
		{append(good, "--rows", "7", "--dry-run"), "give one of them"},
		{good[1:], "there is no FILE"},
		{append(good, "--epsilon", "0"), "--epsilon"},
		{append(good, "--confidence", "1"), "confidence"},
		{append(good, "--target", "weight"), `no column "weight"`},
		{append(good, "--target", ""), "--target"},
		{[]string{"none.csv", "--target", "pressure", "--epsilon", "1", "--bounds", "age=20,80"}, "none.csv"},
	} {
		if text, err := runFit(t, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q\n%s", c.args[1:], err, c.want, text)
		}
	}
}

// Files as other programs write them: a byte order mark, carriage returns, quotes, spaces, separators, JSON lines under
// another name (package table has the tests of each). A refusal names a line.
func TestFitReadsWhatProgramsWrite(t *testing.T) {
	var plain, json strings.Builder
	for i := range 50 {
		fmt.Fprintf(&plain, "%d,%d\r\n", i%7, i%3)
		fmt.Fprintf(&json, `{"age": %d, "dose": %d}`+"\n", i%7, i%3)
	}
	rows := plain.String()
	for name, c := range map[string]struct{ text, want string }{
		"mark and quotes": {"\xef\xbb\xbf\"age\",dose\r\n" + rows, ""},
		"spaces":          {"age , dose\r\n" + rows, ""},
		"JSON lines":      {"\xef\xbb\xbf\n" + json.String(), ""},
		"JSON array":      {"[" + json.String() + "]", "JSON lines"},
		"header only":     {"age,dose\n", "no row"},
		"few rows":        {"age,dose\n1,2\n", "1 rows, want 12"},
		"semicolons":      {"age;dose\r" + strings.ReplaceAll(strings.ReplaceAll(rows, ",", ";"), "\r\n", ",0\r"), ""},
		"tabs":            {"age\tdose\n" + strings.ReplaceAll(rows, ",", "\t"), ""},
		"missing":         {"age,dose\r\n1,2\r\n,2\r\n" + rows, `"age" has no value in line 3. --missing middle`},
		"missing target":  {"age,dose\r\n1,2\r\n1,NA\r\n" + rows, `"dose" has no value in line 3. A target cannot`},
	} {
		file := filepath.Join(t.TempDir(), "people.json")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := runFit(t, file, "--target", "dose", "--epsilon", "1", "--bounds", "age=0,7", "--bounds", "dose=0,3")
		switch {
		case c.want == "" && (err != nil || !strings.Contains(out, "50 rows, a number that counts as public") ||
			!strings.Contains(out, "clipped")):
			t.Errorf("%s: %v\n%s", name, err, out)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
