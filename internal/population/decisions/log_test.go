package decisions_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/population/decisions"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// readLogistic reads a log with rewards from 0 to 1.
func readLogistic(t testing.TB, text string, strictly bool) ([]decisions.Decision, error) {
	t.Helper()
	f, err := family.New(family.NameLogistic, 1)
	if err != nil {
		t.Fatal(err)
	}
	log, err := decisions.Read(strings.NewReader(text), decisions.Options{Family: f, Strict: strictly})
	if err != nil {
		return nil, err
	}
	return log.Decisions, nil
}

func TestWrittenLogsAreRead(t *testing.T) {
	var log []decisions.Decision
	for i := range 30 {
		log = append(log, decisions.Decision{Arms: [][]float64{{float64(i) / 30, 1}, {0.1, -1e-9}}, Arm: i % 2,
			Reward: float64(i % 3 / 2), Propensity: 1 / float64(i+1), Line: 2*i + 1})
	}
	var text bytes.Buffer
	w := decisions.NewWriter(&text)
	for _, d := range log {
		if err := w.Write(d); err != nil {
			t.Fatal(err)
		}
		text.WriteByte('\n')
	}
	again, err := readLogistic(t, text.String(), true)
	if err != nil || fmt.Sprint(again) != fmt.Sprint(log) {
		t.Errorf("%v, want %v: %v", again, log, err)
	}
	if err := w.Write(decisions.Decision{Arms: [][]float64{{1}}}); !errors.Is(err, decisions.ErrLog) {
		t.Errorf("a propensity of 0 was written: %v", err)
	}
}

// Each of these lines is a decision with one fault. It is refused with its line and what is wrong, and no number of it
// is in the error.
func TestFaultyLinesAreRefused(t *testing.T) {
	good := `{"arms":[[0.5],[-0.5]],"arm":0,"reward":1,"propensity":0.5}`
	for _, c := range []struct{ line, problem string }{
		{`{"arms":[[1],[1]],"arm":0,"propensity":0.5}`, `"reward" is missing`},
		{`{"arms":[[1],[1]],"reward":1,"propensity":0.5}`, `"arm" is missing`},
		{`{"arms":[[1]],"arm":0,"reward":1}`, `"propensity" is missing`},
		{`{"arm":0,"reward":1,"propensity":1}`, `"arms" is missing`},
		{`{"arms":[[1],[1]],"arm":0,"reward":null,"propensity":0.5}`, `"reward" is missing: every decision needs`},
		{`{"arms":[[1],[null]],"arm":0,"reward":1,"propensity":0.5}`, `"arms[1][0]" is null`},
		{`{"arms":[[1],null],"arm":0,"reward":1,"propensity":0.5}`, `"arms[1]" is null`},
		{`{"arms":[[1],[1]],"arm":0,"reward":1,"reward":0,"propensity":0.5}`, `"reward" occurs twice`},
		{`{"arms":[[1],[1]],"arm":0,"reward":1,"Reward":0,"propensity":0.5}`, `written "reward"`},
		{`{"arms":[[1],[1]],"arm":0,"reward":1,"propensity":0.5,"x":{"a":1,"a":2}}`, `"x.a" occurs twice`},
		{`{"arms":[[1],[1]],"arm":2,"reward":1,"propensity":0.5}`, `"arm" is none of the 2 arms`},
		{`{"arms":[[1],[1]],"arm":-1,"reward":1,"propensity":0.5}`, `"arm" is none`},
		{`{"arms":[[1],[1]],"arm":1.5,"reward":1,"propensity":0.5}`, `"arm" must be a whole number`},
		{`{"arms":[[1],[1]],"arm":"0","reward":1,"propensity":0.5}`, `"arm" must be a whole number`},
		{`{"arms":[[1],[1]],"arm":77777777777777777777,"reward":1,"propensity":0.5}`, `"arm" is none of the 2 arms`},
		{`{"arms":[],"arm":0,"reward":1,"propensity":0.5}`, `"arms" is empty`},
		{`{"arms":[[1],[]],"arm":0,"reward":1,"propensity":1}`, "give at least one number"},
		{`{"arms":[[1],[2,3]],"arm":0,"reward":1,"propensity":0.5}`, `"arms[1]" has dimension 2`},
		{`{"arms":[[1,2]],"arm":0,"reward":1,"propensity":1}`, "those before 1"},
		{`{"arms":[[1],[1e101]],"arm":0,"reward":1,"propensity":0.5}`, `"arms[1][0]" is beyond`},
		{`{"arms":[[1],[1]],"arm":0,"reward":50,"propensity":0.5}`, `"reward" is not from 0 to 1`},
		{`{"arms":[[1],[1]],"arm":0,"reward":-0.1,"propensity":0.5}`, `"reward" is not from 0 to 1`},
		{`{"arms":[[1],[1]],"arm":0,"reward":1e308,"propensity":0.5}`, `"reward" is not from 0 to 1`},
		{`{"arms":[[1],[1]],"arm":0,"reward":1e400,"propensity":0.5}`, `"reward" is larger`},
		{`{"arms":[[1],[1]],"arm":0,"reward":NaN,"propensity":0.5}`, "not JSON"},
		{`{"arms":[[1],[1]],"arm":0,"reward":"1","propensity":1}`, "must be a number"},
		{`{"arms":[[1],[1]],"arm":0,"reward":1,"propensity":0}`, `"propensity" must be above 0`},
		{`{"arms":[[1],[1]],"arm":0,"reward":1,"propensity":-0.5}`, `"propensity" must be above 0`},
		{`{"arms":[[1],[1]],"arm":0,"reward":1,"propensity":1.1}`, "at most 1"},
		{good + " " + good, "something behind it"},
		{`{"arms":[[1],[1]],"arm":0,"reward":1,"propensity":1e-400}`, `"propensity" is too small`},
		{`[` + good + `]`, "it must be an object"}, {`age;dose;pressure`, "not JSON"}, {good[:20], "cut off"},
	} {
		log, err := readLogistic(t, good+"\n\n"+c.line+"\n"+good, false)
		if !errors.Is(err, decisions.ErrLog) || !strings.Contains(err.Error(), "line 3: ") ||
			!strings.Contains(err.Error(), c.problem) ||
			log != nil {
			t.Errorf("%s: %v, want %q", c.line, err, c.problem)
		}
	}
	more := `{"arms":[[0.5],[-0.5]],"arm":0,"reward":1,"propensity":0.5,"who":null,"at":"noon"}`
	if log, err := readLogistic(t, more, false); err != nil || len(log) != 1 {
		t.Errorf("fields for the log's own use: %v", err)
	}
	if _, err := readLogistic(t, more, true); err == nil || !strings.Contains(err.Error(), `"at"`) {
		t.Errorf("fields for the log's own use, strictly: %v", err)
	}
}

func FuzzDecisionLog(f *testing.F) {
	f.Add([]byte(`{"arms":[[1],[0.5]],"arm":0,"reward":1,"propensity":0.5}`))
	f.Add([]byte(`{"arms":[[1],[0.5]],"arm":0,"reward":null,"propensity":0.5,"x":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		log, err := readLogistic(t, string(text), false)
		if err != nil && !errors.Is(err, decisions.ErrLog) {
			t.Fatal(err)
		}
		for _, d := range log {
			if d.Arm >= len(d.Arms) || !(d.Propensity > 0) || !(d.Reward >= 0 && d.Reward <= 1) {
				t.Fatalf("%+v", d)
			}
		}
	})
}
