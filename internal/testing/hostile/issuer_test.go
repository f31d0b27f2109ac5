package hostile_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/analyzer"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// installations are devices that an issuer makes for itself, each with a key of its own, under a certificate for so
// many.
func (m *tier) installations(r *round, n int, certified uint32) (all []person) {
	m.t.Helper()
	issuer := testbed.NewIdentity(m.t)
	certificate, _ := m.Sign(&wire.IssuerCertificate{
		Deployment: testbed.Deployment, Key: issuer.Public(), First: 1, Last: 99, Installations: certified,
	}, m.Registrar)
	for range n {
		key := testbed.NewIdentity(m.t)
		credential, _ := m.Sign(&wire.Credential{
			Deployment: testbed.Deployment, HostKey: key.Public(), Devices: 1, NotAfter: 99, Issuer: certificate,
		}, issuer)
		all = append(all, m.person(r, devices.Sender{Identity: key, Credential: credential}))
	}
	return all
}

// An issuer that works with the analyzer fills a cohort with installations of its own, around one victim. The shuffler
// is honest: these devices are admitted, and the analyzer takes what it knows of them out of the counts. What stays are
// the victim's own noised numbers, on which the plan puts no bound where no other device is honest. With server noise
// the bound is finite, which limits.epsilon_alone demands, and the numbers stay behind that noise. Outside shuffle,
// where the analyzer is the honest one, its cap on a sponsor and the certificate's number refuse the release.
func TestAnIssuerOfTheAnalyzerFillsACohort(t *testing.T) {
	if testing.Short() {
		t.Skip("one epoch after the other: nothing in it runs at the same time as anything else")
	}
	t.Parallel()
	for name, c := range map[string]struct {
		channel   plan.Channel
		change    func(*analyzer.Config)
		certified uint32
		bounded   bool   // alone
		verdict   string // begins so
		known     bool   // the victim's numbers
	}{
		"shuffle":                    {plan.Shuffle, func(*analyzer.Config) {}, size, false, "counted", true},
		"shuffle, with server noise": {plan.Shuffle, ofAllNoise, size, true, "counted", false},
		"shares":                     {plan.Shares, func(*analyzer.Config) {}, size, false, "counted", true},
		"shares, with server noise":  {plan.Shares, ofNoise, size, true, "counted", false},
		"shares, with a cap":         {plan.Shares, ofHosts, size, false, "refused by the analyzer", false},
		"shares, beyond its certificate": {plan.Shares, func(*analyzer.Config) {}, 2, false, "refused by the analyzer",
			false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newTier(t, c.channel, c.change)
			r := m.next()
			alone, err := plan.Alone(r.Announcement)
			epsilon := math.Inf(1)
			if err == nil {
				epsilon = alone.Epsilon(r.Plan.Delta)
			}
			bounded := !math.IsInf(epsilon, 1)
			if bounded != c.bounded {
				t.Errorf("if no other device is honest: %+v, %v", alone, err)
			}
			victim, own := m.people(r, 1), m.installations(r, size-1, c.certified)
			all := append(slices.Clone(own), victim...)
			m.release(r, all, lies{})
			counts, why := m.counts(r), m.why(r)
			if refused := counts.Destroyed && why != ""; refused != (c.verdict != "counted") {
				t.Fatalf("destroyed %v: %s", counts.Destroyed, why)
			}
			if counts.Destroyed {
				want := "sponsor_share"
				if c.certified < size {
					want = "issuer_full"
				}
				if said := fmt.Sprint(why, m.refused()); !strings.Contains(said, want) {
					t.Errorf("%s, want %s", said, want)
				}
				return
			}
			left := sum(own...)
			for i := range left {
				for j := range left[i] {
					left[i][j] = counts.Releases[i].Ones[j] - left[i][j]
				}
			}
			if known := fmt.Sprint(left) == fmt.Sprint(victim[0].entries); known != c.known {
				t.Errorf("left are %v, the victim's are %v", left, victim[0].entries)
			}
			t.Logf("bound if no other device is honest: %v; the victim's numbers known: %v", epsilon, c.known)
		})
	}
}

// ofAllNoise has servers add as much noise as a cohort does.
func ofAllNoise(c *analyzer.Config) { c.Terms.ServerNoise = 1 }
