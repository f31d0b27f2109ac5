package hostile_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/analyzer"
	"github.com/riffle-dp/riffle/internal/testing/hostile"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// succeeds says so of a verdict on what should not count and does.
func succeeds(verdict, more string) string {
	if strings.HasPrefix(verdict, "counted: ") {
		return "succeeds: " + verdict + more
	}
	return verdict
}

// unseen is a lie in a manifest that no role can find.
func unseen(name string, lie func(*wire.Manifest)) attack {
	a := altered(name, lie)
	run := a.run
	a.run = func(m *tier) string { return succeeds(run(m), "") }
	return a
}

// moved is a chunk of another round under the name of this one.
func (m *tier) moved(chunk []byte, to *round) []byte {
	m.t.Helper()
	c, err := wire.ParseChunk(chunk)
	m.must(err)
	c.Epoch, c.Round = to.Epoch, to.Round
	chunk, err = wire.BuildChunk(*c)
	m.must(err)
	return chunk
}

// destroy has the shuffler say that it destroyed a cohort.
func (m *tier) destroy(r *round) {
	m.t.Helper()
	signed, _ := m.Sign(&wire.Manifest{
		Deployment: testbed.Deployment, Epoch: r.Epoch, Announcement: r.digest[:], Outcome: wire.Destroyed,
		Enrolled: size,
	}, m.Shuffler)
	m.must(m.log.AppendAudit(m.Context(), wire.KindManifest, signed))
	m.must(m.shuffler.Mixed.PublishManifest(m.Context(), r.Epoch, 0, signed))
}

// unchanged reports whether the next announcement has the same policy.
func (m *tier) unchanged(before glm.Policy) string {
	next := m.announced(m.epoch+1, 0)
	if fmt.Sprint(next.Policy.Theta) == fmt.Sprint(before.Theta) && next.Policy.Epoch == before.Epoch {
		return ", and the policy stays"
	}
	return ", **and the policy changes**"
}

// envelopeDomains are those of the channels whose payload is one sealed envelope.
var envelopeDomains = map[plan.Channel]seal.EnvelopeDomain{
	plan.Local: seal.LocalEnvelope, plan.Central: seal.CentralEnvelope,
}

// reads is how many messages of a report a key opens.
func (m *tier) reads(r *round, p person, key *seal.HPKEKey) (parts int) {
	m.t.Helper()
	switch m.channel {
	case plan.Shuffle:
		opener := seal.NewBitOpener(key, r.digest)
		for message := range slices.Chunk(p.payload, seal.BitSize) {
			if _, _, _, err := opener.Open(message); err == nil {
				parts++
			}
		}
	case plan.Shares:
		return m.readsShare(r, p, key)
	default:
		opener := seal.NewEnvelopeOpener(key, envelopeDomains[m.channel], r.digest)
		if _, err := opener.Open(p.payload, nil); err == nil {
			parts = 1
		}
	}
	return parts
}

// A malicious shuffler with its real keys against a real analyzer and the audit, in every channel. What each attack
// reaches is in docs/attacks, which is written from these runs; the test fails where the two differ. By default some
// attacks are tried in some channels, with RIFFLE_LONG=1 all in all.
func TestAMaliciousShuffler(t *testing.T) {
	if testing.Short() {
		t.Skip("one epoch after the other: nothing in it runs at the same time as anything else")
	}
	t.Parallel()
	all, long := attacks(), os.Getenv("RIFFLE_LONG") != ""
	found := play(t, all, long, "TestAMaliciousShuffler")
	if !t.Failed() {
		written(t, "shuffler.csv", found, long)
	}
}

// play goes through attacks in every channel, audits each deployment, and returns what came of each.
func play(t *testing.T, all []attack, long bool, test string, change ...func(*analyzer.Config)) hostile.Table {
	t.Helper()
	found := make([]hostile.Table, len(all))
	for _, c := range plan.Channels() {
		t.Run(string(c), func(t *testing.T) {
			var m *tier
			type tried struct {
				attack int
				row    hostile.Row
				epochs [2]uint64
			}
			var rows []tried
			for i, a := range all {
				if a.channels != nil && !slices.Contains(a.channels, c) || !long && !slices.Contains(a.always, c) {
					continue
				}
				if m == nil {
					m = newTier(t, c, change...)
				}
				begin := m.epoch + 1
				row := hostile.Row{Attack: a.name, Channel: string(c), Left: a.left[c], Test: test}
				row.Outcome = a.run(m)
				rows = append(rows, tried{i, row, [2]uint64{begin, m.epoch}})
			}
			if m == nil {
				t.Skip("with RIFFLE_LONG=1")
			}
			breaches := m.audited()
			for _, r := range rows {
				var named []string
				for epoch := r.epochs[0]; epoch <= r.epochs[1]; epoch++ {
					for n := range 2 {
						name := fmt.Sprintf("%d.%d", epoch, n)
						named = append(named, breaches[name]...)
						delete(breaches, name)
					}
				}
				if len(named) > 0 {
					r.row.Outcome += "; found by the audit as " + strings.Join(named, ", ")
				} else {
					r.row.Outcome += "; the audit finds nothing"
				}
				found[r.attack] = append(found[r.attack], r.row)
			}
			if len(breaches) > 0 {
				t.Errorf("breaches of no attack: %v", breaches)
			}
		})
	}
	return slices.Concat(found...)
}

// readsShare reports whether a key opens the analyzer's share in a report of the channel of shares.
func (m *tier) readsShare(r *round, p person, key *seal.HPKEKey) int {
	m.t.Helper()
	const envelope = seal.EnvelopeOverhead + 64 + devices.ProofSize
	sealed := p.payload[len(p.payload)-envelope:]
	first := p.payload[shares.NonceSize+64 : len(p.payload)-envelope]
	hash := sha256.Sum256(first)
	commitment := shares.NewSecret(m.Shuffler, r.digest).Commitment()
	aad := slices.Concat(p.payload[:shares.NonceSize+64], hash[:], commitment)
	if _, err := seal.NewEnvelopeOpener(key, seal.ShareEnvelope, r.digest).Open(sealed, aad); err == nil {
		return 1
	}
	return 0
}
