package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/evaluate/fit"
)

// A category has a coefficient for each declared value but the first, whether a row has the value or not; the same rows
// from standard input and from a file, and with missing values where the rule is middle.
func TestFitTakesCategoriesAndMissingValues(t *testing.T) {
	var rows strings.Builder
	rows.WriteString("site;age;dose\n")
	draw := rand.New(rand.NewPCG(8, 1))
	for i := range 30_000 {
		site, age := []string{"a", "b"}[i%2], fmt.Sprint(draw.Float64())
		dose := fmt.Sprintf("%.3f", 1+2*float64(i%2)+0.3*draw.NormFloat64())
		if i%100 == 7 {
			age = "NA"
		}
		if i%2000 == 7 {
			site = ""
		}
		fmt.Fprintf(&rows, "%s;%s;%s\n", site, strings.Replace(age, ".", ",", 1), strings.Replace(dose, ".", ",", 1))
	}
	args := []string{"fit", "-", "--target", "dose", "--epsilon", "8", "--bounds", "dose=0,4", "--bounds", "age=0,1",
		"--category", "site=a,b,nowhere", "--json"}
	run := func(args ...string) (string, error) {
		out, said, err := execute(t, rows.String(), args...)
		return out + said, err
	}
	if _, err := run(args...); err == nil || !strings.Contains(err.Error(), "has no value in line") {
		t.Errorf("a missing value: %v", err)
	}
	text, err := run(append(args, "--missing", "middle")...)
	if err != nil {
		t.Fatal(err)
	}
	var r fit.Result
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range r.Coefficients {
		names = append(names, c.Name)
	}
	if got := strings.Join(names, " "); got != "(intercept) site=b site=nowhere age" {
		t.Errorf("coefficients of %s", got)
	}
	// Nobody is nowhere, which the noised statistics show.
	if len(r.Weak) != 1 || strings.Join(r.Weak[0].Columns, " ") != "site=nowhere" {
		t.Errorf("weak columns: %+v", r.Weak)
	}
	text, err = run(append(args[:len(args)-2], "site=a,b", "--json", "--missing", "middle")...)
	if err != nil || json.Unmarshal([]byte(text), &r) != nil {
		t.Fatal(err)
	}
	if c := r.Coefficients[1]; c.Deviation == nil || math.Abs(c.Value-2) > 0.02+6**c.Deviation {
		t.Errorf("site=b is %s, want 2", text)
	}
}

// Columns that hardly vary or determine each other are named, at a large budget and many rows, in place of advice to
// spend more.
func TestFitNamesWeakColumns(t *testing.T) {
	var rows strings.Builder
	rows.WriteString("years,months,site,pressure\n")
	draw := rand.New(rand.NewPCG(9, 1))
	for range 20_000 {
		years := 18 + 72*draw.Float64()
		fmt.Fprintf(&rows, "%v,%v,7,%v\n", years, 12*years, 90+0.5*years+5*draw.NormFloat64())
	}
	file := written(t, "people.csv", rows.String())
	text, err := runFit(t, file, "--target", "pressure", "--epsilon", "100", "--bounds", "pressure=80,200", "--bounds",
		"years=18,90", "--bounds", "months=216,1080", "--bounds", "site=0,10")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"site hardly varies", "years, months nearly determine each other",
		"noised statistics"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, "larger epsilon") {
		t.Errorf("the budget is blamed:\n%s", text)
	}
}

// A dry run says what to expect without reading a value: it takes a table whose values no fit would take, and no file
// at all. A delta above 1/rows is warned of, with one to take.
func TestFitDryRun(t *testing.T) {
	file := written(t, "people.csv", "age,pressure\n"+strings.Repeat("no number,none\n", 5000))
	args := []string{"--target", "pressure", "--bounds", "age=18,90", "--bounds", "pressure=80,200", "--epsilon", "1",
		"--dry-run"}
	read, err := runFit(t, append(args, file)...)
	if err != nil {
		t.Fatal(err)
	}
	counted, err := runFit(t, append(args, "--rows", "5000")...)
	if err != nil || counted != read || !strings.Contains(read, "Nothing was spent") ||
		!strings.Contains(read, "5000 rows") {
		t.Errorf("%v\n%s\n%s", err, read, counted)
	}
	few, err := runFit(t, append(args, "--rows", "300")...)
	if err != nil || !strings.Contains(few, "too large for intervals") || !strings.Contains(few, "from about") {
		t.Errorf("%v\n%s", err, few)
	}
	width := func(rows string) float64 {
		text, err := runFit(t, append(args, "--rows", rows, "--json")...)
		var r fit.Result
		if err != nil || json.Unmarshal([]byte(text), &r) != nil || !r.DryRun || r.Coefficients[1].High == nil {
			t.Fatalf("%v\n%s", err, text)
		}
		return *r.Coefficients[1].High - *r.Coefficients[1].Low
	}
	if !(width("100000") < width("5000")) {
		t.Error("more rows do not help")
	}
	warned, err := runFit(t, append(args, "--rows", "5000", "--delta", "1e-3")...)
	if err != nil || !strings.Contains(warned, "take 1e-05") {
		t.Errorf("%v\n%s", err, warned)
	}
}
