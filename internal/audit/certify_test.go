package audit_test

import (
	"context"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/audit/certificate"
	"github.com/riffle-dp/riffle/internal/testing/ledger"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// Every epoch that is over has a certificate, in every channel and profile, which shows itself to one who trusts the
// keys. An epoch whose cohort was destroyed has one, too.
func TestEveryEpochHasACertificate(t *testing.T) {
	for _, x := range []struct {
		profile glm.Profile
		channel plan.Channel
		epochs  int
	}{
		{glm.Practical, plan.Shuffle, 2}, {glm.Paper, plan.Shuffle, 2}, {glm.Practical, plan.Shares, 3},
		{glm.Practical, plan.Local, 2}, {glm.Practical, plan.Central, 2}, {glm.Joint, plan.Central, 3},
		{glm.LinUCB, plan.Shares, 3},
	} {
		t.Run(string(x.profile)+" "+string(x.channel), func(t *testing.T) {
			l := made(t, ledger.Options{Configuration: ledger.Small(x.profile, x.channel, x.epochs), Seed: 1,
				Destroyed: func(epoch uint64, _ uint32) bool { return epoch == 2 }})
			destroyed, released := 0, 0
			err := audit.Certify(context.Background(), l, l.Bundle, func(epoch uint64, b []byte, why error) error {
				if why != nil {
					t.Errorf("epoch %d: %v", epoch, why)
					return nil
				}
				f, err := certificate.Decode(b)
				if err != nil {
					t.Fatalf("epoch %d: %v", epoch, err)
				}
				v, err := certificate.Verify(f, l.Bundle)
				if err != nil {
					t.Fatalf("epoch %d: %v", epoch, err)
				}
				if v.Epoch != epoch || v.Channel != x.channel || len(v.Observers) == 0 ||
					v.Versions[0] != ledger.Version {
					t.Errorf("epoch %d: %+v", epoch, v.Summary)
				}
				if v.Rounds[0].Outcome == "destroyed" {
					destroyed++
				} else {
					released++
				}
				return nil
			})
			if err != nil || destroyed != 1 || released == 0 {
				t.Errorf("%d epochs released, %d destroyed, %v", released, destroyed, err)
			}
		})
	}
}
