package hostile_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/analyzer"
	"github.com/riffle-dp/riffle/internal/testing/hostile"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/shuffle"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// ofNoise has servers add noise.
func ofNoise(c *analyzer.Config) { c.Terms.ServerNoise = 0.5 }

// ofHosts has an analyzer that counts no more than half of a cohort from one host.
func ofHosts(c *analyzer.Config) { c.SponsorShare = 0.5 }

// zeros is a source that is none.
type zeros struct{}

func (zeros) Uint64() uint64 { return 0 }

// noiseAttacks are what a malicious shuffler does with the noise that is its part.
func noiseAttacks() []attack {
	in := []plan.Channel{plan.Shuffle}
	with := func(name string, change func(m *tier, r *round, l *lies)) attack {
		return attack{name: "noise: " + name, channels: in, run: func(m *tier) string {
			r := m.next()
			all := m.people(r, size)
			var l lies
			change(m, r, &l)
			m.release(r, all, l)
			return m.verdict(r, all)
		}}
	}
	return []attack{
		{
			name: "noise: adds zeros in place of it", channels: in, always: in,
			left: map[plan.Channel]string{plan.Shuffle: devicesOnly},
			run: func(m *tier) string {
				r := m.next()
				all := m.people(r, size)
				m.release(r, all, lies{noise: func(noise []byte) []byte {
					none, err := shuffle.AppendNoise(context.Background(), nil, r.Announcement, r.digest, zeros{})
					m.must(err)
					return none
				}})
				v := m.verdict(r, all)
				c := m.counts(r)
				if c.Destroyed {
					return v
				}
				planned := shuffle.NoiseMessages(r.Announcement)
				for i, want := range sum(all...) {
					if !slices.Equal(c.Releases[i].Ones, want) {
						return v
					}
				}
				return succeeds(v, fmt.Sprintf(", with nothing of the %d messages of noise that are planned", planned))
			},
		},
		with("leaves it out, and says so", func(_ *tier, _ *round, l *lies) {
			l.noise = func([]byte) []byte { return nil }
			l.manifest = func(w *wire.Manifest) { w.NoiseMessages = 0 }
		}),
		with("leaves it out, and says that it is there", func(_ *tier, r *round, l *lies) {
			l.noise = func([]byte) []byte { return nil }
			l.manifest = func(w *wire.Manifest) { w.Messages += shuffle.NoiseMessages(r.Announcement) }
		}),
		with("sends each of its messages twice", func(_ *tier, _ *round, l *lies) {
			l.noise = func(noise []byte) []byte { return append(noise, noise...) }
			l.manifest = func(w *wire.Manifest) { w.NoiseMessages *= 2 }
		}),
		with("leaves it out, and fills the number up with a device's messages", func(m *tier, r *round, l *lies) {
			l.noise = func(noise []byte) []byte {
				extra := m.people(r, 1)[0].payload
				for len(extra) < len(noise) {
					extra = append(extra, m.people(r, 1)[0].payload...)
				}
				return extra[:len(noise)]
			}
		}),
		with("puts all of it on one number", func(m *tier, r *round, l *lies) {
			l.noise = func(noise []byte) []byte {
				sealer, err := seal.NewBitSealer(r.AnalyzerKey, r.digest)
				m.must(err)
				var all []byte
				for len(all) < len(noise) {
					all, err = sealer.AppendSeal(all, 0, 0, true)
					m.must(err)
				}
				return all
			}
		}),
	}
}

// changedLabels changes the labels of two messages of one report that differ.
func changedLabels(name string, change func(first, second []byte)) attack {
	in := []plan.Channel{plan.Shuffle}
	return attack{name: name, channels: in, always: in, run: func(m *tier) string {
		r := m.next()
		all := m.people(r, size)
		messages := slices.Collect(slices.Chunk(all[0].payload, seal.BitSize))
		first := seal.Label(messages[0])
		other := slices.IndexFunc(messages, func(b []byte) bool { return !bytes.Equal(seal.Label(b), first) })
		change(first, seal.Label(messages[other]))
		m.release(r, all, lies{})
		return m.verdict(r, all)
	}}
}

// own are reports of devices of one other host, which the registrar admitted and which the shuffler controls.
func (m *tier) own(r *round, n int) (all []person) {
	m.t.Helper()
	theirs, credential := m.Host(uint32(n))
	for i := range n {
		all = append(all, m.person(r, devices.Sender{Identity: theirs, Credential: credential, Number: uint32(i)}))
	}
	return all
}

// alone gathers one victim with admitted devices of the shuffler's own.
func alone(m *tier) string {
	r := m.next()
	victim, own := m.people(r, 1), m.own(r, size-1)
	all := append(slices.Clone(own), victim...)
	m.release(r, all, lies{})
	v := m.verdict(r, all)
	c := m.counts(r)
	if c.Destroyed {
		return v
	}
	known := sum(own...)
	for i := range known {
		for j := range known[i] {
			known[i][j] = c.Releases[i].Ones[j] - known[i][j]
		}
	}
	if fmt.Sprint(known) != fmt.Sprint(victim[0].entries) {
		return succeeds(v, "; the victim's numbers stay behind the analyzer's noise")
	}
	return succeeds(v, fmt.Sprintf("; less those of %d devices of its own they are the victim's %d numbers, as its "+
		"device "+"noised them", len(own), len(slices.Concat(known...))))
}

// ownDevices are attacks with devices that the registrar admitted. In shuffle the shuffler needs none.
func ownDevices(name string) []attack {
	in := []plan.Channel{plan.Shares, plan.Local, plan.Central}
	return []attack{{
		name: "own devices: gathers one victim with admitted devices of one host" + name, channels: in, always: in[:1],
		left: map[plan.Channel]string{
			plan.Shares: "(ε, δ) if `limits.max_dishonest` counts these devices; else server noise " +
				"(`limits.epsilon_alone`); " + "else **that device's own noise bits alone**",
			plan.Local: ownNoise, plan.Central: serverNoise,
		},
		run: alone,
	}}
}

// ofCap are the same under a cap on one sponsor's share, where nothing is left to be protected.
func ofCap() []attack {
	all := ownDevices(", where the analyzer caps a sponsor's share")
	for i := range all {
		all[i].left = nil
	}
	return all
}

// The same shuffler where panels are drawn, where an epoch has several rounds, where servers add noise, and where it
// has devices of its own.
func TestAMaliciousShufflerInOtherDeployments(t *testing.T) {
	if testing.Short() {
		t.Skip("one epoch after the other: nothing in it runs at the same time as anything else")
	}
	t.Parallel()
	long := os.Getenv("RIFFLE_LONG") != ""
	var found hostile.Table
	for _, group := range []struct {
		attacks []attack
		change  func(*analyzer.Config)
	}{
		{panelAttacks(), ofPanels}, {roundAttacks(), ofRounds}, {noiseAttacks(), ofNoise},
		{ownDevices(""), func(*analyzer.Config) {}}, {ofCap(), ofHosts},
	} {
		found = append(found, play(t, group.attacks, long, "TestAMaliciousShufflerInOtherDeployments", group.change)...)
	}
	if !t.Failed() {
		written(t, "shuffler-deployments.csv", found, long)
	}
}
