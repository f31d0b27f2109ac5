package contract

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/analyzer"
	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	public "github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// A mean in the first epoch and a histogram in the second, through all roles: who was drawn reports at the same time as
// ever, those who have nothing to report are in no answer, the learner is told nothing, and an audit of both logs finds
// every plan, sum and answer as it must be.
func TestQuestionsThroughAllRoles(t *testing.T) {
	for _, c := range []plan.Channel{plan.Shuffle, plan.Shares} {
		t.Run(string(c), func(t *testing.T) {
			t.Parallel()
			terms := testbed.Terms()
			terms.Channel, terms.Registered, terms.Decisions, terms.Records, terms.Tail = c, panelPeople, 2, 3, 1e-6
			learner := testbed.Learner(glm.Practical, panelSize)
			learner.Practical.Panel, learner.Practical.Decisions = panelSize, 2
			timing := testbed.Timing()
			timing.RewardWindow, timing.Grace = testbed.Long, time.Minute
			second := statistic.Quantity{Entries: []int{1}, Low: -1, High: 1}
			questions := []struct {
				kind statistic.Kind
				q    statistic.Question
			}{
				{statistic.Mean, statistic.Question{Name: "first",
					Of: []statistic.Quantity{{Low: 0, High: 1}, second}}},
				{statistic.Histogram, statistic.Question{Name: "second", Of: []statistic.Quantity{second},
					Edges: []float64{0, 0.4}}},
			}
			d := start(t, learner, timing, terms, func(c *analyzer.Config) {
				c.Questions = func() (all []analyzer.Waiting, err error) {
					for _, one := range questions {
						text, err := public.QuestionFile(one.kind, &one.q)
						if err != nil {
							return nil, err
						}
						all = append(all, analyzer.Waiting{From: one.q.Name, Text: text})
					}
					return all, nil
				}
			})
			for i := range panelPeople {
				if status, answer := d.post(fmt.Sprintf("/v1/devices/p%d", i), ""); status != http.StatusOK {
					t.Fatal(status, answer)
				}
			}
			for epoch := uint64(1); epoch <= 2; epoch++ {
				d.drawn(epoch)
				for i := range panelPeople / 2 { // the others do nothing
					_, answer := d.post(fmt.Sprintf("/v1/devices/p%d/decisions", i),
						`{"arms": [[0.6, 0.2], [-0.3, 0.5]]}`)
					d.post("/v1/rewards", fmt.Sprintf(`{"token": %q, "reward": 1}`, fmt.Sprint(answer["token"])))
				}
				a, _ := d.announcement(epoch, 0)
				if a.Question == nil || a.Question.Name != questions[epoch-1].q.Name || a.Policy.Epoch != 0 {
					t.Fatalf("epoch %d asks %+v under the policy of %d cohorts", epoch, a.Question, a.Policy.Epoch)
				}
				d.due(a)
				if counts := d.counts(epoch, 0); counts.Destroyed || counts.Reports != panelSize {
					t.Fatalf("%+v", counts)
				}
			}
			d.drawn(3)
			if a, _ := d.announcement(3, 0); a.Question != nil || a.Policy.Epoch != 0 {
				t.Errorf("epoch 3 asks %+v under the policy of %d cohorts", a.Question, a.Policy.Epoch)
			}
			d.stop()
			answers := d.audited()
			if len(answers) != 2 || len(answers[0].Values) != 2 || len(answers[1].Values) != 3 {
				t.Fatalf("%+v", answers)
			}
			for _, one := range answers {
				if one.Reports != panelSize || !(one.Count.Low <= panelSize*2 && one.Count.High >= 0) {
					t.Errorf("%+v", one)
				}
			}
		})
	}
}

// audited audits what the roles wrote, and returns the answers.
func (d *deployment) audited() (answers []*public.Answer) {
	d.t.Helper()
	bundle := keyring.Bundle{Deployment: testbed.Deployment, Analyzer: d.Analyzer.Public(),
		Shuffler: d.Shuffler.Public(), Registrar: d.Registrar.Public(), Auditor: d.AuditorKey.Public()}
	live, err := audit.NewLive(d.Context(), audit.Over(d.auditor.Streams), bundle)
	d.must(err)
	r, err := audit.Check(d.Context(), live, audit.Options{Trust: bundle, Row: func(r audit.Row) {
		if r.Answer != nil {
			answers = append(answers, r.Answer)
		}
	}})
	d.must(err)
	if !r.OK {
		d.t.Errorf("%+v", r.Breaches)
	}
	return answers
}
