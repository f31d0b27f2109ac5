package chart_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/chart"
)

func ptr(v float64) *float64 { return &v }

func adultResult() chart.Result {
	return chart.Result{
		Data: "adult", Map: "b7", Family: "logistic", Profile: "practical", Seed: 1, Users: 39074, Dim: 7, Arms: 2,
		Epochs: 6, Reports: 39000,
		Epsilon: 1, Delta: 1e-6, Cohort: 180, Regret: 6840.5, UniformRegret: 19537, ConstantRegret: 9352,
		NonPrivateRegret: ptr(6310),
		PolicyValue:      ptr(0.8452), ConstantValue: ptr(0.7601), NonPrivateValue: ptr(0.8447), HeldOut: 9768,
		MessagesPerUser: 412.5, BytesPerUser: 34567, CPUSecondsPerUser: 0.0321, WallSeconds: 1234.5,
	}
}

func TestResultJSONHasItsKeys(t *testing.T) {
	var b bytes.Buffer
	if err := adultResult().WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"users", "epsilon", "delta", "regret", "uniform_regret", "nonprivate_regret",
		"messages_per_user",
		"bytes_per_user", "wall_seconds", "epochs", "policy_value", "best_constant_value", "nonprivate_value"} {
		if _, there := got[key]; !there {
			t.Errorf("key %q is missing", key)
		}
	}
	synthetic := adultResult()
	synthetic.PolicyValue, synthetic.ConstantValue = nil, nil
	synthetic.NonPrivateValue, synthetic.NonPrivateRegret = nil, nil
	b.Reset()
	if err := synthetic.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	if s := b.String(); strings.Contains(s, "policy_value") || !strings.Contains(s, `"nonprivate_regret": null`) {
		t.Errorf("values of unlabelled data are left out, a baseline not run is null:\n%s", s)
	}
	path := filepath.Join(t.TempDir(), "result.json")
	if err := adultResult().SaveJSON(path); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || !json.Valid(b) {
		t.Errorf("saved file: %v, %s", err, b)
	}
}

func TestImpossibleResultsAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(*chart.Result){
		"NaN":          func(r *chart.Result) { r.Regret = math.NaN() },
		"infinite":     func(r *chart.Result) { r.Epsilon = math.Inf(1) },
		"NaN behind *": func(r *chart.Result) { r.PolicyValue = ptr(math.NaN()) },
		"no users":     func(r *chart.Result) { r.Users = 0 },
	} {
		r := adultResult()
		spoil(&r)
		var b bytes.Buffer
		if err := r.WriteJSON(&b); !errors.Is(err, chart.ErrResult) {
			t.Errorf("%s: JSON: %v", name, err)
		}
		if err := r.WriteTable(&b); !errors.Is(err, chart.ErrResult) || b.Len() != 0 {
			t.Errorf("%s: table: %v", name, err)
		}
	}
}

func TestResultTableFitsATerminal(t *testing.T) {
	var b bytes.Buffer
	if err := adultResult().WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + b.String())
	for _, want := range []string{"Regret over 39,074 people", "6,840.5", "35.0%", "100.0%", "9,768 people held out",
		"0.8452", "0.8447", "0.7601",
		"412.5", "34,567", "32.1 ms", "20m35s", "1e-06"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the table does not say %q", want)
		}
	}
	for _, line := range strings.Split(b.String(), "\n") {
		if n := len([]rune(line)); n > 80 {
			t.Errorf("line of %d characters does not fit a terminal: %q", n, line)
		}
	}
}

// A run that learned next to nothing says so below its table, with what would help; any other says nothing, however
// large the part of regret in hindsight is that no policy foresees.
func TestARunThatLearnedNothingSaysSo(t *testing.T) {
	for _, c := range []struct {
		trust           string
		regret, without float64 // of uniform play's; 0: not run
		says            string
	}{
		{"local", 1.12, 0.3, "Riffle lost no less than uniform play: this run learned next to nothing"},
		{"local", 0.95, 0.3, "here 1,859 times"},
		{"local", 0.95, 0.3, "spared people 7 % of what the same learner spares them without privacy"},
		{"shuffle", 0.95, 0, "spared people 5 % of what uniform play loses"},
		{"shuffle", 0.95, 0.3, "More people, or a larger --epsilon"},
		{"shuffle", 1, 1.01, "so many people teach it nothing"},
		{"local", 0.7, 0.3, ""},
		{"shuffle", 0.95, 0.9, ""}, // half of what can be learned at all
		{"shuffle", 0.7, 0, ""},
	} {
		r := adultResult()
		r.Trust, r.VarianceRatio, r.Regret = c.trust, 1859.4, c.regret*r.UniformRegret
		r.NonPrivateRegret = nil
		if c.without > 0 {
			r.NonPrivateRegret = ptr(c.without * r.UniformRegret)
		}
		var b bytes.Buffer
		if err := r.WriteTable(&b); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(b.String()), " ")
		said := strings.Contains(text, "learned next to nothing") || strings.Contains(text, "teach it nothing")
		if said != (c.says != "") || !strings.Contains(text, c.says) {
			t.Errorf("%s at %v of uniform play, %v without privacy:\n%s", c.trust, c.regret, c.without, b.String())
		}
	}
}
