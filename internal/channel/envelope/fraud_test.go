package envelope

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/chunks"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	machine "github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// One fraud is tolerated, with its own reason, and counts as a null record; of two the round is rejected, and nobody
// counts as counted. A person is counted once, however often their envelope comes.
func TestFraudsAreRefusedWithTheirReasons(t *testing.T) {
	t.Parallel()
	for _, c := range []plan.Channel{plan.Local, plan.Central} {
		for name, f := range map[string]struct {
			why  outcome.Reason
			make func(x *table, honest [][]byte, i int) []byte
		}{
			"the same envelope twice": {Repeated, func(x *table, honest [][]byte, _ int) []byte { return honest[0] }},
			"another envelope of a device": {Repeated, func(x *table, _ [][]byte, i int) []byte {
				return x.envelope(x.sender(x.host, uint32(i), 1000, x.registrar), -2)
			}},
			"a device of an earlier epoch": {Earlier, func(x *table, _ [][]byte, i int) []byte {
				return x.envelope(x.sender(x.host, 900+uint32(i), 1000, x.registrar), 7)
			}},
			"an invented host": {NoCredential, func(x *table, _ [][]byte, i int) []byte {
				id, err := seal.GenerateIdentity()
				x.must(err)
				return x.envelope(x.sender(id, uint32(i), 1000, id), 7)
			}},
			"a device beyond the credential": {NoCredential, func(x *table, _ [][]byte, i int) []byte {
				return x.envelope(x.sender(x.host, 1000+uint32(i), 1000, x.registrar), 7)
			}},
			"an envelope of another round": {chunks.Undecryptable, func(x *table, _ [][]byte, i int) []byte {
				x.round.Digest[0]++
				defer func() { x.round.Digest[0]-- }()
				return x.envelope(x.sender(x.host, 100+uint32(i), 1000, x.registrar), 7)
			}},
			"noise": {chunks.Undecryptable, func(x *table, honest [][]byte, i int) []byte {
				return bytes.Repeat([]byte{byte(i)}, len(honest[0]))
			}},
			"an entry out of range": {OutOfRange, func(x *table, honest [][]byte, i int) []byte {
				domain := map[plan.Channel]seal.EnvelopeDomain{
					plan.Local: seal.LocalEnvelope, plan.Central: seal.CentralEnvelope,
				}[c]
				s, err := seal.NewEnvelopeSealer(x.round.AnalyzerKey, domain, x.round.Digest)
				x.must(err)
				content := bytes.Repeat([]byte{0xff}, len(honest[0])-seal.EnvelopeOverhead-devices.ProofSize)
				by := x.sender(x.host, 100+uint32(i), 1000, x.registrar)
				content, err = by.AppendProof(content, x.round.Digest, content)
				x.must(err)
				b, err := s.AppendSeal(nil, content, nil)
				x.must(err)
				return b
			}},
			"an installation beyond its issuer's number": {IssuerFull, func(x *table, honest [][]byte, i int) []byte {
				honest[0] = x.envelope(x.installation(0), 7) // of one
				return x.envelope(x.installation(1+byte(i)), 7)
			}},
			"more devices than a host may have": {SponsorShare, func(x *table, _ [][]byte, i int) []byte {
				return x.envelope(x.sender(x.host, 100+uint32(i), 1000, x.registrar), 7)
			}},
		} {
			for bad := 1; bad <= 2; bad++ {
				x := newTable(t, c)
				x.SponsorShare = 0.5 // as many as are honest
				x.must(x.Participants.Add(7, 0, []devices.Present{x.device(900), x.device(901)}))
				envelopes := x.envelopes(people)
				for i := range bad {
					envelopes = append(envelopes, f.make(x, envelopes, i))
				}
				counts, err := x.count(x.cut(envelopes))
				if bad == 2 {
					if !errors.Is(err, chunks.Rejected) || counts != nil || x.Participants.Devices(1) != 0 ||
						!strings.Contains(err.Error(), string(f.why)+": 2") {
						t.Errorf("%s: two of %s: %v", c, name, err)
					}
					continue
				}
				if err != nil || x.refused(f.why) != 1 || x.Participants.Devices(1) != people {
					t.Errorf("%s: %s: %v, account %+v", c, name, err, x.Messages.Balance())
					continue
				}
				if want := x.exactly(envelopes[:people], 1); c == plan.Local &&
					!slices.Equal(slices.Concat(counts[0].Ones, counts[1].Ones), want) {
					t.Errorf("%s: %v, want %v", name, counts, want)
				}
				sums, err := machine.Sums(x.round.Announcement, &wire.Counts{Reports: people + 1, Releases: counts})
				x.must(err)
				// 0.25 is half a level of the bad envelope's null record.
				d := max(0, sums[1].Values[0]-7*people-0.25, 7*people-0.25-sums[1].Values[0])
				if d*d > 36*sums[1].Variance[0] {
					t.Errorf("%s: %s: sum %v, want %v", c, name, sums[1].Values[0], 7*people)
				}
			}
		}
	}
}

// What the announcement and the manifest do not allow is rejected, and other envelopes of a round that was summed
// before.
func TestRoundsThatDoNotFitAreRejected(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(x *table, m *wire.Manifest){
		"another announcement":        func(_ *table, m *wire.Manifest) { m.Announcement = make([]byte, 32) },
		"too few reports":             func(x *table, _ *wire.Manifest) { x.round.Cohort.Minimum++ },
		"too many reports":            func(x *table, _ *wire.Manifest) { x.round.Cohort.Size = people - 1 },
		"other chunks":                func(_ *table, m *wire.Manifest) { m.ChunksDigest = make([]byte, 32) },
		"another root":                func(_ *table, m *wire.Manifest) { m.MessagesRoot[0] ^= 1 },
		"another number of envelopes": func(_ *table, m *wire.Manifest) { m.Messages++ },
		"noise messages":              func(_ *table, m *wire.Manifest) { m.NoiseMessages++ },
		"envelopes of fewer reports":  func(x *table, m *wire.Manifest) { m.Reports--; x.round.Cohort.Minimum-- },
		"no noise": func(x *table, _ *wire.Manifest) {
			x.round.Plan.Rounds[0].Releases[1].AnalyzerNoise = 0
		},
		"other devices counted before": func(x *table, _ *wire.Manifest) {
			var who []devices.Present
			for i := range uint32(people + 1) {
				who = append(who, x.device(i))
			}
			x.must(x.Participants.Add(1, 0, who))
		},
		"nobody who was in the epoch": func(x *table, _ *wire.Manifest) {
			x.must(x.Participants.Add(1, 7, []devices.Present{{Participant: devices.Participant{Number: 3}}}))
			x.round.Cohort.MaxDishonest = people
		},
		"nothing wrong": func(*table, *wire.Manifest) {},
	} {
		x := newTable(t, plan.Central)
		m := x.cut(x.envelopes(people))
		change(x, m)
		counts, err := x.count(m)
		good := name == "nothing wrong"
		if good != (err == nil) || !good && (!errors.Is(err, chunks.Rejected) || counts != nil) {
			t.Errorf("%s: %v", name, err)
		}
		if name == "nothing wrong" {
			counts, err := x.count(x.cut(x.envelopes(people + 1)))
			if !errors.Is(err, chunks.Rejected) || counts != nil {
				t.Errorf("other envelopes of a round that was summed: %v", err)
			}
			path := filepath.Join(x.folder, "noised-1-0")
			b, err := os.ReadFile(path)
			x.must(err)
			b[len(b)-1] ^= 1
			for _, b := range [][]byte{b, b[:len(b)-1], nil} {
				x.must(os.WriteFile(path, b, 0o600))
				if _, err := x.count(m); !errors.Is(err, channel.ErrDamagedState) {
					t.Errorf("damaged sums: %v", err)
				}
			}
		}
	}
}
