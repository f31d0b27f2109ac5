package status_test

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/role/status"
	"github.com/riffle-dp/riffle/internal/testing/browser"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// knowing is an analyzer that learned something, with intervals.
func knowing(epochs, coefficients int, intervals bool) status.Snapshot {
	s := status.Snapshot{
		Deployment: "clinic", Epoch: uint64(epochs) + 1, Epochs: epochs + 2, Rounds: 1, Releases: busy.Releases,
		Budget: busy.Budget, Cohort: &status.Cohort{Size: 1600, Minimum: 1520, Messages: 147, Opened: ptr(12000)},
		Learned: &status.Learned{
			Cohorts: epochs, Interval: "95 % for each coefficient by itself, if the <model> is right: from the variance of " +
				"sampling, of all noise and of the prior. Not in it: a wrong model, what dishonest parties do to the sums, " +
				"and the bias of one Newton step from afar.",
			Predicted: status.Predicted{Least: 0.1123, Neutral: 0.5, Most: 0.8877},
		},
	}
	s.Budget = ptr(*busy.Budget)
	s.Budget.In(plan.Shuffle, math.Inf(1))
	for e := range epochs {
		l := status.LearnedEpoch{Epoch: uint64(e + 1), Epsilon: status.Epsilon(0.99 - 0.05*float64(e%3))}
		for i := range coefficients {
			l.Theta = append(l.Theta, 1.4*math.Sin(float64(3*i+1))*(1-math.Exp(-float64(e+1)/2)))
			if intervals {
				l.HalfWidth = append(l.HalfWidth, 1.9*math.Exp(-float64(e+1)/2)+0.02*float64(i%5))
			}
		}
		s.Learned.Epochs = append(s.Learned.Epochs, l)
	}
	return s
}

// drawnLine is a line in a picture, and not the script that draws it.
var drawnLine = regexp.MustCompile(`<polyline points="[0-9]`)

// widest is how many coefficients the page writes down.
const widest = 24

// checkLearned holds the page against what was learned: the numbers of the newest epoch are written, there is a line for
// each coefficient, and nothing is drawn nowhere.
func checkLearned(t *testing.T, l *status.Learned, document string, shown map[string]browser.Field) {
	t.Helper()
	last := l.Epochs[len(l.Epochs)-1]
	written := map[string]int{}
	for name := range shown {
		for _, of := range []string{"theta", "half_width"} {
			if strings.HasPrefix(name, fmt.Sprintf("learned.epochs.%d.%s.", len(l.Epochs)-1, of)) {
				written[of]++
			}
		}
	}
	if n := min(widest, len(last.Theta)); written["theta"] != n {
		t.Errorf("%d coefficients are written, want %d", written["theta"], n)
	}
	if n := min(widest, len(last.HalfWidth)); written["half_width"] != n {
		t.Errorf("%d half widths are written, want %d", written["half_width"], n)
	}
	if got := shown["learned.interval"].Text; got != l.Interval {
		t.Errorf("the interval is described as %q", got)
	}
	if n := len(drawnLine.FindAllString(document, -1)); n != len(last.Theta)+1 {
		t.Errorf("%d lines are drawn for %d coefficients and the speed", n, len(last.Theta))
	}
	if strings.Contains(document, "NaN") {
		t.Error("something is drawn nowhere")
	}
	if got := shown["budget.channel"].Text; got != string(plan.Shuffle) {
		t.Errorf("the channel reads %q", got)
	}
}
