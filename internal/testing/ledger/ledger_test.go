package ledger

import (
	"testing"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Every channel and profile makes a deployment whose entries are leaves of its roles' logs.
func TestEveryChannelMakesALedger(t *testing.T) {
	for _, x := range []struct {
		profile glm.Profile
		channel plan.Channel
		retain  bool
	}{
		{glm.Practical, plan.Shuffle, false}, {glm.Practical, plan.Shuffle, true}, {glm.Paper, plan.Shuffle, false},
		{glm.Practical, plan.Shares, false}, {glm.Practical, plan.Local, false}, {glm.Practical, plan.Local, true},
		{glm.Practical, plan.Central, false}, {glm.Joint, plan.Central, false},
		{glm.LinUCB, plan.Shuffle, true}, {glm.LinUCB, plan.Shares, false},
	} {
		l, err := Make(Options{Configuration: Small(x.profile, x.channel, 3), Retain: x.retain,
			Destroyed: func(epoch uint64, _ uint32) bool { return epoch == 2 }})
		if err != nil {
			t.Errorf("%s, %s: %v", x.profile, x.channel, err)
			continue
		}
		for role, log := range l.Logs {
			party := wire.Party{Deployment: Deployment, Key: l.Identity(role).Public()}
			for i, e := range log {
				if !wire.Leaf(e.Kind, e.Signed, party) {
					t.Errorf("%s, %s: entry %d of the %s, %s, is no leaf", x.profile, x.channel, i, role, e.Kind)
				}
			}
		}
		if n := len(l.Logs[bus.Shuffler]); n < 3 {
			t.Errorf("%s, %s: %d entries of the shuffler", x.profile, x.channel, n)
		}
		if x.retain != (len(l.Chunks) > 0) {
			t.Errorf("%s, %s: %d rounds are retained", x.profile, x.channel, len(l.Chunks))
		}
	}
}
