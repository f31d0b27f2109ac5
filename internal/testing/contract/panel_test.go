package contract

import (
	"fmt"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// Twelve of the people here form each panel, and a report holds up to three of their decisions.
const panelSize, panelPeople, panelDecisions = 12, 16, 3

// panels starts a deployment that draws panels, two epochs of a person, and names its people to the host.
func panels(t *testing.T, channel plan.Channel) *deployment {
	t.Helper()
	terms := testbed.Terms()
	terms.Channel = channel
	terms.Registered, terms.Decisions, terms.Records, terms.Tail = panelPeople, panelDecisions, 2, 1e-6
	learner := testbed.Learner(glm.Practical, panelSize)
	learner.Practical.Panel, learner.Practical.Decisions = panelSize, panelDecisions
	timing := testbed.Timing()
	timing.RewardWindow, timing.Grace = testbed.Long, time.Minute
	d := start(t, learner, timing, terms)
	for i := range panelPeople {
		if status, answer := d.post(fmt.Sprintf("/v1/devices/p%d", i), ""); status != http.StatusOK {
			t.Fatal(status, answer)
		}
	}
	return d
}

// drawn waits until it is known on the host who is in an epoch's panel.
func (d *deployment) drawn(epoch uint64) {
	d.t.Helper()
	testbed.Eventually(d.t, fmt.Sprintf("drawn: the panel of epoch %d", epoch), func() bool {
		s := d.host.Status()
		if s.Refused != "" || s.Evidence != nil {
			d.t.Fatal(s.Refused, s.Evidence)
		}
		return s.Epoch == epoch && s.Panel != nil && s.Panel.Members == panelSize
	})
}

// panelOutside is what everybody but the person sees of an epoch.
type panelOutside struct {
	Cohorts []cohortView
	Spent   int // devices whose ledger has the epoch as spent
}

// What one person does in a panel, of the four: nothing, one decision, as many as a report holds, and more than that.
// Over all three roles the same number of reports leaves, of the same size, and the cohorts are the same.
func TestDecisionsOfPanelsMoveNobody(t *testing.T) {
	t.Parallel()
	counts := map[string]int{"nothing": 0, "one": 1, "all": panelDecisions, "more": 3 * panelDecisions}
	channels := []plan.Channel{plan.Shuffle, plan.Shares}
	if testing.Short() {
		counts, channels = map[string]int{"nothing": 0, "more": 3 * panelDecisions}, channels[:1]
	}
	for _, channel := range channels {
		views := make(chan func(map[string]panelOutside), len(counts))
		t.Run(string(channel), func(t *testing.T) {
			for name, n := range counts {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					v := panelView(t, channel, n)
					views <- func(all map[string]panelOutside) { all[name] = v }
				})
			}
		})
		close(views)
		all := map[string]panelOutside{}
		for enter := range views {
			enter(all)
		}
		for name, v := range all {
			if !reflect.DeepEqual(v, all["nothing"]) {
				t.Errorf("%s: of a person who decides %q the outside sees\n%+v\ninstead of\n%+v", channel, name, v,
					all["nothing"])
			}
		}
	}
}

// panelView runs an epoch in which every person decides once, and one of them so often.
func panelView(t *testing.T, channel plan.Channel, times int) panelOutside {
	const arms, person = `{"arms": [[0.6, 0.2], [-0.3, 0.5]]}`, 5
	d := panels(t, channel)
	d.drawn(1)
	for i := range panelPeople {
		n := 1
		if i == person {
			n = times
		}
		for range n {
			_, answer := d.post(fmt.Sprintf("/v1/devices/p%d/decisions", i), arms)
			d.post("/v1/rewards", fmt.Sprintf(`{"token": %q, "reward": 1}`, fmt.Sprint(answer["token"])))
		}
	}
	a, _ := d.announcement(1, 0)
	d.due(a)
	c := d.counts(1, 0)
	if c.Destroyed || c.Reports != panelSize {
		t.Fatalf("%+v", c)
	}
	var v panelOutside
	for _, m := range d.manifests() {
		if m.Epoch == 1 {
			v.Cohorts = append(v.Cohorts, cohortView{m.Epoch, m.Enrolled, m.Reports, m.Messages})
		}
	}
	d.drawn(2) // it goes on
	for i := range panelPeople {
		for _, e := range d.host.State(fmt.Sprintf("p%d", i)).Ledger.Entries {
			if e.Epoch == 1 {
				v.Spent++
			}
		}
	}
	if v.Spent != panelSize {
		t.Errorf("%d devices have spent on the first panel", v.Spent)
	}
	d.stop()
	return v
}
