package audit_test

import (
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// questioned is the deployment of panels whose first two epochs ask questions. The learner's one epoch is the third.
const questioned = "questioned"

// asking asks for a mean in the first epoch, and for a histogram in the second.
func asking(epoch uint64) (statistic.Kind, *statistic.Question) {
	first := statistic.Quantity{Entries: []int{0}, Low: -1, High: 1}
	switch epoch {
	case 1:
		return statistic.Mean, &statistic.Question{Name: "first", Of: []statistic.Quantity{first, {High: 1}}}
	case 2:
		return statistic.Histogram, &statistic.Question{Name: "second", Of: []statistic.Quantity{first},
			Edges: []float64{0}}
	}
	return "", nil
}

// questionFrauds are frauds with questions to panels.
var questionFrauds = []fraud{
	{
		name: "a question is asked again under its old name", of: questioned,
		plant: announcementAt(2, 0, func(a *plan.Announcement) { a.Question.Name = "first" }),
		want:  []audit.What{audit.QuestionRefused}, entry: "analyzer/5 announcement",
	},
	{
		name: "a question costs more than it may", of: questioned,
		plant: announcementAt(1, 0, func(a *plan.Announcement) { a.Plan.Rounds[0].Releases[0].AnalyzerNoise /= 4 }),
		want:  []audit.What{audit.PlanChanged, audit.PromiseExceeded, audit.WeakPlan},
		entry: "analyzer/1 announcement",
	},
	{
		name: "the learner takes a step while its people answer", of: questioned,
		plant: announcementAt(2, 0, func(a *plan.Announcement) { a.Policy.Epoch++ }),
		want:  []audit.What{audit.PolicyChanged}, entry: "analyzer/5 announcement",
	},
	{
		name: "an answer is not what was counted", of: questioned,
		plant: learnedAt(1, 0, func(l *wire.Learned) { l.Sums[0].Values[0]++ }),
		want:  []audit.What{audit.SumsWrong}, entry: "analyzer/4 learned",
	},
}

// The audit finds nothing wrong with honest questions, and shows what was answered: recomputed from the counts, and
// nothing of what the learner was not told.
func TestQuestionsAreAudited(t *testing.T) {
	o := configuration(questioned)
	o.Destroyed = func(epoch uint64, _ uint32) bool { return epoch == 2 }
	var rows []audit.Row
	r := check(t, made(t, o), audit.Options{Row: func(row audit.Row) { rows = append(rows, row) }})
	if !r.OK || len(rows) != 3 {
		t.Fatalf("%d rounds%s", len(rows), list(r))
	}
	a := rows[0].Answer
	if a == nil || a.Name != "first" || a.Kind != statistic.Mean || len(a.Values) != 2 ||
		a.Values[1].Of != "reward" || a.Reports != rows[0].Reports {
		t.Errorf("answered %+v", a)
	}
	for _, v := range a.Values {
		if !(v.Low <= v.Value && v.Value <= v.High) {
			t.Errorf("%+v", v)
		}
	}
	if rows[0].Asked != "first" || rows[1].Asked != "second" || rows[2].Asked != "" {
		t.Errorf("asked %q, %q, %q", rows[0].Asked, rows[1].Asked, rows[2].Asked)
	}
	if rows[1].Answer != nil || rows[2].Answer != nil {
		t.Errorf("a destroyed epoch, or the learner's, answers: %+v, %+v", rows[1].Answer, rows[2].Answer)
	}
	var text strings.Builder
	r.Rounds = rows
	if err := r.WriteTable(&text); err != nil || !strings.Contains(text.String(), "mean first") {
		t.Errorf("%v:\n%s", err, text.String())
	}
}
