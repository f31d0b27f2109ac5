package status_test

import (
	"fmt"
	"html"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/role/status"
	"github.com/riffle-dp/riffle/internal/testing/browser"
	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// knowing is an analyzer that learned something, with intervals.
func knowing(epochs, coefficients int, intervals bool) status.Snapshot {
	s := status.Snapshot{
		Deployment: "clinic", Epoch: uint64(epochs) + 1, Epochs: epochs + 2, Rounds: 1, Releases: busy.Releases,
		Budget: busy.Budget, Cohort: &status.Cohort{Size: 1600, Minimum: 1520, Messages: 147, Opened: ptr(12000)},
		Learned: &status.Learned{
			Cohorts: epochs,
			Interval: "95 % for each coefficient by itself, if the <model> is right: from the variance of sampling, " +
				"of all noise and of the prior. Not in it: a wrong model, what dishonest parties do to the sums, and " +
				"the bias of one Newton step from afar.",
			Predicted: status.Predicted{Least: 0.1123, Neutral: 0.5, Most: 0.8877},
		},
	}
	s.Budget = ptr(*busy.Budget)
	s.Budget.In(plan.Shuffle, math.Inf(1))
	for e := range epochs {
		l := status.LearnedEpoch{Epoch: uint64(e + 1), Epsilon: privacy.Epsilon(0.99 - 0.05*float64(e%3))}
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

// lasting is an analyzer of panels whose people come back, with a control group: the policy helps from the third epoch
// on, and a rule took back the second one.
func lasting() status.Snapshot {
	s := knowing(6, 5, true)
	s.Budget.Records, s.Budget.Period, s.Budget.Decisions = 4, 30, 7
	for i := range s.Learned.Epochs {
		at := -0.1 + 0.05*float64(i)
		e := &s.Learned.Epochs[i]
		e.Lift = &status.Lift{Treated: 0.5 + at, Control: 0.5, Lift: at, Low: at - 0.06, High: at + 0.07}
		e.Unchanged = 0.0625 * float64(i)
	}
	s.Learned.Epochs[1].Action = "rollback"
	s.Learned.Action, s.Learned.Acted = "rollback", 2
	s.Learned.Total = &status.Lift{Treated: 0.58, Control: 0.5, Lift: 0.08, Low: 0.0525, High: 0.111}
	return s
}

// termed is an analyzer whose coefficients have names by a schema, one of which would be markup.
func termed() status.Snapshot {
	s := knowing(4, 4, true)
	s.Learned.Names = []string{"bias", "id = sms × age", "id = <model>&\"",
		"a field of a name that is far too long to draw = x"}
	return s
}

// answering is an analyzer whose panels answered a mean and a regression.
func answering() status.Snapshot {
	s := knowing(4, 4, true)
	of := func(name string, value, half float64) deployment.Estimated {
		return deployment.Estimated{Of: name, Value: value, Low: value - half, High: value + half}
	}
	mean := &deployment.Answer{Name: "ages", Kind: statistic.Mean, Epoch: 2, Reports: 391,
		Count: of("decisions with a reward", 1234.56, 20.25),
		Values: []deployment.Estimated{of("age of <model>", 51.23, 1.5),
			{Of: "reward", Value: 0.25, Low: 0.2, High: 0.31, Deviation: 0.433}}}
	fit := &deployment.Answer{Name: "gain", Kind: statistic.Fit, Epoch: 3, Reports: 400,
		Count:  of("decisions with a reward", 800.5, 30),
		Values: []deployment.Estimated{{Of: "reward per age", Value: 9, Unbounded: true}}}
	s.Answers = []*deployment.Answer{mean, fit}
	return s
}

// checkAnswers holds the page against the answers to questions: what has no interval shows no number.
func checkAnswers(t *testing.T, answers []*deployment.Answer, document string, shown map[string]browser.Field) {
	t.Helper()
	if hidden := strings.Contains(document, `id="answerscard" hidden`); hidden != (len(answers) == 0) {
		t.Errorf("answers are hidden: %v", hidden)
	}
	if len(answers) == 0 {
		return
	}
	for name, want := range map[string]string{
		"answers.0.name": "ages", "answers.0.kind": "mean", "answers.0.reports": "391", "answers.0.epoch": "2",
		"answers.0.count.value": "1,235", "answers.0.values.0.low": "49.73", "answers.0.values.0.high": "52.73",
		"answers.0.values.0.of": "age of &lt;model&gt;", "answers.0.values.1.deviation": "0.433",
		"answers.1.name": "gain", "answers.1.count.high": "830.5", "answers.1.values.0.of": "reward per age",
		"answers.1.values.0.value": "",
	} {
		if got := shown[name].Text; got != want && html.EscapeString(got) != want {
			t.Errorf("%s reads %q, want %q", name, got, want)
		}
	}
	if !strings.Contains(document, "none: too much noise") ||
		strings.Index(document, "answers.1.name") > strings.Index(document, "answers.0.name") {
		t.Error("an answer without an interval does not say so, or the newest is not the first")
	}
}

// checkNamed holds the page against the names of the coefficients: in the table whole, in the pictures shortened.
func checkNamed(t *testing.T, names []string, document string) {
	t.Helper()
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	for _, name := range names {
		if !strings.Contains(document, "<td>"+html.EscapeString(name)+"</td>") &&
			!strings.Contains(document, "<td>"+escape.Replace(name)+"</td>") {
			t.Errorf("the table does not name %q", name)
		}
	}
	if len(names) > 0 &&
		(strings.Contains(document, ">θ1<") || !strings.Contains(document, ">id = sms × age</text>")) {
		t.Error("coefficients have numbers where they have names, or are not named in the pictures")
	}
}

// checkCompared holds the page against the comparison with the control group.
func checkCompared(t *testing.T, document string, shown map[string]browser.Field) {
	t.Helper()
	for name, want := range map[string]string{
		"learned.total.lift": "0.08", "learned.total.lift_low": "0.0525", "learned.epochs.5.lift.lift_high": "0.22",
		"learned.epochs.5.unchanged": "0.313", "learned.acted": "2",
		"learned.action": "the policy before was taken up again",
		"budget.records": "4", "budget.period": "30", "budget.decisions": "7",
	} {
		if got := shown[name].Text; got != want {
			t.Errorf("%s reads %q, want %q", name, got, want)
		}
	}
	if !strings.Contains(document, "Lift over the control group in each epoch") ||
		strings.Contains(document, "nothing adds up.</div>") {
		t.Error("the lift is not drawn, or the page says that a person pays once")
	}
}

// drawnLine is a line in a picture, and not the script that draws it.
var drawnLine = regexp.MustCompile(`<polyline points="[0-9]`)

// widest is how many coefficients the page writes down.
const widest = 24

// checkLearned holds the page against what was learned: the numbers of the newest epoch are written, there is a line
// for each coefficient, and nothing is drawn nowhere.
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
