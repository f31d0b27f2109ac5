package planner

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// drawn are 500 of 3000 registered devices, of which 1 % may be dishonest, in up to 4 epochs with 7 decisions on
// average.
func drawn(c plan.Channel) PanelOptions {
	o := PanelOptions{Options: defaults(), Size: 500, Control: 0.05, MeanDecisions: 7}
	o.Terms = plan.DefaultTermsFor(c)
	o.Channel, o.Registered, o.Dishonest, o.Records = c, 3000, 0.01, 4
	return o
}

func planned(t *testing.T, o PanelOptions) *Panel {
	t.Helper()
	r, err := RunPanel(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The numbers of a panel are those of the accountant, recomputed here: m from the tail, the tail within delta, and the
// epochs of a person within what was asked.
func TestPanelsKeepWhatWasAsked(t *testing.T) {
	serial(t)
	for _, c := range plan.Channels() {
		o := drawn(c)
		r := planned(t, o)
		most := privacy.PanelDishonest(o.Dishonest, o.Size, r.Tail)
		if r.MaxDishonest != max(most, o.DishonestReports) || r.TailTotal != r.Tail*4 ||
			!(r.TailTotal > 0 && r.TailTotal < o.Delta) {
			t.Errorf("%s: m is %d, by the tail %v it is %d; all tails are %v", c, r.MaxDishonest, r.Tail, most,
				r.TailTotal)
		}
		if above := privacy.PanelTail(o.Registered, 30, o.Size, r.MaxDishonest); !(above <= r.Tail) {
			t.Errorf("%s: more than %d of a panel have probability %v, charged is %v", c, r.MaxDishonest, above, r.Tail)
		}
		if !(r.Epsilon <= o.Epsilon && r.Epsilon > 0.9*o.Epsilon && r.EpsilonEpoch < 0.6*o.Epsilon) ||
			len(r.Releases) != 3 {
			t.Errorf("%s: epsilon %v of a person and %v of an epoch, asked is %v; %d releases", c, r.Epsilon,
				r.EpsilonEpoch, o.Epsilon, len(r.Releases))
		}
	}
}

// Noise in a mean over decisions grows with the decisions of a report over those that are made.
func TestNoisePerDecision(t *testing.T) {
	o := drawn(plan.Shares)
	for _, x := range []struct{ decisions, mean int }{{1, 0}, {7, 0}, {7, 7}, {28, 7}} {
		o.Decisions, o.MeanDecisions = x.decisions, float64(x.mean)
		r := planned(t, o)
		want := r.Releases[1].Deviation / float64(o.Size)
		if x.mean > 0 {
			want *= float64(x.decisions) / kept(7, x.decisions)
		}
		if got := r.Releases[1].PerDecision; math.Abs(got-want) > 1e-9*want {
			t.Errorf("%+v: %v, want %v", x, got, want)
		}
	}
}

// The advised number is the one that tells most of all, and lies between 1 and the mean's neighbourhood; the noise of a
// much larger one grows as its square.
func TestAdvisedDecisions(t *testing.T) {
	serial(t)
	o := drawn(plan.Shares)
	for _, x := range []struct {
		size int
		mean float64
	}{{500, 7}, {500, 1}, {200_000, 7}, {200_000, 0.3}} {
		o.Size, o.Registered, o.MeanDecisions, o.Decisions, o.Users = x.size, 6*x.size, x.mean, 0, x.size
		r := planned(t, o)
		best := slices.MaxFunc(r.Choices, func(a, b Choice) int {
			return int(math.Copysign(1, a.Information-b.Information))
		})
		if best.Decisions != r.Advised || r.Decisions != r.Advised || best.Information != 1 ||
			float64(r.Advised) > 2*x.mean+2 {
			t.Errorf("%+v: advised are %d, planned %d, the best of the choices is %+v", x, r.Advised, r.Decisions, best)
		}
		last := r.Choices[len(r.Choices)-1]
		if x.mean == 7 && math.Abs(last.Noise-16) > 0.01 { // (28/7)^2
			t.Errorf("%+v: noise of %d decisions is %v, want 16", x, last.Decisions, last.Noise)
		}
		if x.size > 100_000 && x.mean == 7 && r.Advised < 5 {
			t.Errorf("where sampling matters %d of 7 decisions are advised", r.Advised)
		}
	}
}

// What a report holds on average is E[min(N, k)], summed by hand.
func TestKeptIsTheMeanOfWhatAReportHolds(t *testing.T) {
	for _, mean := range []float64{0.1, 1, 7, 60} {
		for _, k := range []int{1, 2, 7, 30, 200} {
			want, p := 0.0, math.Exp(-mean)
			for n := range 1000 {
				want += p * math.Min(float64(n), float64(k))
				p *= mean / float64(n+1)
			}
			if got := kept(mean, k); math.Abs(got-want) > 1e-9*(1+want) {
				t.Errorf("of %v, at most %d: %v, want %v", mean, k, got, want)
			}
		}
	}
}

// What contradicts itself is refused with the option's name.
func TestPanelsThatCannotBe(t *testing.T) {
	for want, change := range map[string]func(*PanelOptions){
		"--panel":          func(o *PanelOptions) { o.Size = 3001 },
		"--records":        func(o *PanelOptions) { o.Period = 3 },
		"--decisions":      func(o *PanelOptions) { o.Decisions = -1 },
		"--tail":           func(o *PanelOptions) { o.Tail = o.Delta },
		"--control":        func(o *PanelOptions) { o.Control = 1 },
		"--mean-decisions": func(o *PanelOptions) { o.MeanDecisions = math.NaN() },
		"--releases":       func(o *PanelOptions) { o.Releases = 2 },
		"--dishonest":      func(o *PanelOptions) { o.Dishonest = -1 },
	} {
		o := drawn(plan.Central)
		change(&o)
		if _, err := RunPanel(o); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	o := drawn(plan.Shares)
	o.Dishonest = 0.97
	var infeasible *Infeasible
	if _, err := RunPanel(o); !errors.As(err, &infeasible) {
		t.Errorf("no honest devices are left, and the error is %v", err)
	}
}

// The table and the keys of the JSON are the golden ones.
func TestPanelIsTheGoldenOne(t *testing.T) {
	o := drawn(plan.Shares)
	o.Period = 12
	r := planned(t, o)
	var b bytes.Buffer
	if err := r.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "panel.txt")
	if *update {
		if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("not as %s; if the new text is right: -update\n%s", golden, b.String())
	}
	b.Reset()
	var keys map[string]any
	if err := r.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b.Bytes(), &keys); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"epsilon", "epsilon_epoch", "max_dishonest", "tail", "tail_total", "decisions",
		"advised_decisions", "choices", "releases"} {
		if _, ok := keys[key]; !ok {
			t.Errorf("no %s in %s", key, b.String())
		}
	}
	if r.Needed != 3000+11*125 {
		t.Errorf("%d devices are needed in a period of 12 epochs, want %d", r.Needed, 3000+11*125)
	}
}
