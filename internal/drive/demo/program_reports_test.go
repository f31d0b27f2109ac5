package demo

import (
	"testing"

	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// The programs that learn from each person's own report run through the real processes over the channel local: nobody
// is lost, the guarantee is kept, and the audit recomputes every policy from the reports that the counts list. The
// analyzer of the combiner is killed in two epochs, and announces what it would have announced.
func TestProgramsOfReportsRunEndToEnd(t *testing.T) {
	for _, p := range []glm.Profile{glm.OnlineLinUCB, glm.OnlineLinUCBCombiner} {
		t.Run(string(p), func(t *testing.T) {
			slow(t)
			const people = 200
			o := Options{Population: linear(t, people, 4), Hosts: 1, Profile: string(p), Trust: plan.Local}
			if p == glm.OnlineLinUCBCombiner {
				o.Disturb = func(c *cluster.Cluster, epoch uint64) error {
					if epoch > 2 {
						return nil
					}
					return restarted(c, cluster.Analyzer)
				}
			}
			r, _ := run(t, o)
			whole(t, r, people)
			if r.Profile != string(p) || r.NonPrivateRegret == nil {
				t.Errorf("%+v", r)
			}
		})
	}
}
