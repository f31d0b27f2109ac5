package contract

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
)

// outside is what everybody but the person's own device sees of a run.
type outside struct {
	Cohorts   []cohortView
	Enrolled  [][2]uint64 // device and slot, in order
	Decisions []string    // what everybody else's app is told
}

type cohortView struct {
	Epoch    uint64
	Enrolled uint32
	Reports  uint32
	Messages uint64
}

// One person's record in several shapes; everything else is the same. Over all three roles, cohorts are the same people
// in the same slots, released with as many reports of the same size, and everybody else is told the same (conditions 9,
// 13, 14 and 16). internal/randomizer has more shapes, and looks at times.
func TestARecordMovesNobody(t *testing.T) {
	t.Parallel()
	const arms = `{"arms": [[0.6, 0.2], [-0.3, 0.5]]}`
	type record struct {
		arms, reward string
		late         bool
	}
	shapes := map[string]record{
		"usual":     {arms, "1", false},
		"missing":   {arms, "", false},
		"late":      {arms, "1", true},
		"empty":     {`{"arms": []}`, "1", false},
		"malformed": {`{"arms": [[0.`, "1", false},
	}
	if testing.Short() {
		shapes = map[string]record{"usual": shapes["usual"], "malformed": shapes["malformed"]}
	}
	views := make(map[string]outside)
	var order []string
	results := make(chan func(), len(shapes))
	t.Run("runs", func(t *testing.T) {
		for name, changed := range shapes {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				v := view(t, func(person int) (string, string, bool) {
					if person == 5 {
						return changed.arms, changed.reward, changed.late
					}
					return arms, fmt.Sprint(person % 2), false
				})
				results <- func() { views[name] = v; order = append(order, name) }
			})
		}
	})
	close(results)
	for f := range results {
		f()
	}
	for _, name := range order {
		if !reflect.DeepEqual(views[name], views["usual"]) {
			t.Errorf("with a record that is %q the outside sees\n%+v\ninstead of\n%+v", name, views[name],
				views["usual"])
		}
	}
}

func view(t *testing.T, app func(person int) (arms, reward string, late bool)) outside {
	const cohort, people, changed = 10, 20, 5
	timing := testbed.Timing()
	timing.RewardWindow, timing.Grace = testbed.Long, time.Minute
	learner := testbed.Learner(glm.Practical, cohort)
	learner.Horizon = people
	d := start(t, learner, timing, testbed.Terms())
	var v outside
	tooLate := func() {}
	for person := range people {
		epoch := uint64(1 + person/cohort)
		a, _ := d.announcement(epoch, 0)
		arms, reward, late := app(person)
		_, answer := d.post(fmt.Sprintf("/v1/devices/p%d/decisions", person), arms)
		if person != changed {
			v.Decisions = append(v.Decisions, fmt.Sprint(answer["sampled"], answer["reason"], answer["epoch"]))
		}
		if reward != "" {
			body := fmt.Sprintf(`{"token": %q, "reward": %s}`, fmt.Sprint(answer["token"]), reward)
			if late {
				tooLate = func() { d.post("/v1/rewards", body) }
			} else {
				d.post("/v1/rewards", body)
			}
		}
		if (person+1)%cohort == 0 {
			d.due(a)
			tooLate()
			tooLate = func() {}
		}
	}
	d.announcement(3, 0) // the final one
	for _, m := range d.manifests() {
		v.Cohorts = append(v.Cohorts, cohortView{m.Epoch, m.Enrolled, m.Reports, m.Messages})
	}
	d.stop()
	// A host numbers its devices in an order of its own: here they are known by the order of their enrolment.
	slot, rank := uint64(0), map[uint32]uint64{}
	for _, ev := range d.journal() {
		switch {
		case ev.Opened != nil:
			slot = 0
		case ev.Enrolled != nil:
			if _, known := rank[ev.Enrolled.Device]; !known {
				rank[ev.Enrolled.Device] = uint64(len(rank))
			}
			v.Enrolled = append(v.Enrolled, [2]uint64{rank[ev.Enrolled.Device], slot})
			slot++
		}
	}
	return v
}
