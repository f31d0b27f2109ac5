package hostile_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// attacksOnTheRelease are those on what leaves the shuffler: chunks, the manifest and its place in the audit log.
func attacksOnTheRelease() []attack {
	return []attack{
		{
			name: "sends another chunk in place of its own", always: []plan.Channel{plan.Shuffle},
			run: func(m *tier) string {
				r := m.next()
				all := m.people(r, size)
				m.release(r, all, lies{chunk: func(index uint32, chunk []byte) []byte {
					c, err := wire.ParseChunk(chunk)
					m.must(err)
					if index != 1 {
						return chunk
					}
					c.Payload = bytes.Clone(c.Payload)
					c.Payload[len(c.Payload)-1] ^= 1
					chunk, err = wire.BuildChunk(*c)
					m.must(err)
					return chunk
				}})
				return m.verdict(r, all)
			},
		},
		{
			name: "sends a chunk twice, with other content the second time",
			run: func(m *tier) string {
				r := m.next()
				all := m.people(r, size)
				var again error
				m.release(r, all, lies{chunk: func(index uint32, chunk []byte) []byte {
					if index == 1 {
						m.must(m.shuffler.Mixed.PublishChunk(m.Context(), r.Epoch, r.Round, index, chunk))
						again = m.shuffler.Mixed.PublishChunk(m.Context(), r.Epoch, r.Round, index, flipped(chunk))
					}
					return chunk
				}})
				if !errors.Is(again, bus.ErrExists) {
					return fmt.Sprintf("the second chunk is stored: %v", again)
				}
				return m.verdict(r, all) + "; the second chunk finds its name taken at the broker"
			},
		},
		altered("one report more", func(w *wire.Manifest) {
			w.Messages += w.Messages / uint64(w.Reports)
			w.Reports++
			w.Enrolled = max(w.Enrolled, w.Reports)
		}),
		altered("one report fewer", func(w *wire.Manifest) {
			w.Messages -= w.Messages / uint64(
				w.Reports)
			w.Reports--
		}),
		altered("noise that it did not add", func(w *wire.Manifest) { w.NoiseMessages++; w.Messages++ }),
		often(altered("another announcement", func(w *wire.Manifest) { w.Announcement = flipped(w.Announcement) }),
			plan.Local),
		often(altered("other messages", func(w *wire.Manifest) { w.MessagesRoot = flipped(w.MessagesRoot) }),
			plan.Local),
		altered("other chunks", func(w *wire.Manifest) { w.ChunksDigest = flipped(w.ChunksDigest) }),
		unseen("other members' digests", func(w *wire.Manifest) { w.ReportsDigest = flipped(w.ReportsDigest) }),
		unseen("refusals that it made up", func(w *wire.Manifest) {
			w.Refused = append(w.Refused, wire.Refused{Reason: wire.RefusalNotDrawn, Reports: 99})
		}),
		often(altered("more devices enrolled than the cohort has slots", func(w *wire.Manifest) { w.Enrolled += 100 }),
			plan.Shares),
		{
			name: "shifts its share of the sums by one", channels: []plan.Channel{plan.Shares},
			always: []plan.Channel{plan.Shares},
			left:   map[plan.Channel]string{plan.Shares: "what the channel assumes; what is learnt is false"},
			run: func(m *tier) string {
				r := m.next()
				all := m.people(r, size)
				m.release(r, all, lies{shift: true})
				return "succeeds: " + m.verdict(r, all)
			},
		},
		{
			name: "keeps the manifest out of the audit log",
			left: map[plan.Channel]string{
				plan.Shuffle: noRecord, plan.Shares: noRecord, plan.Local: noRecord, plan.Central: noRecord},
			run: func(m *tier) string {
				r := m.next()
				all := m.people(r, size)
				out := m.release(r, all, lies{unlogged: true})
				unmet := m.waits("manifest")
				m.must(m.log.AppendAudit(m.Context(), wire.KindManifest, out.signed))
				return "stopped: the analyzer's readiness condition " + unmet + " is unmet until it is there; then " +
					m.verdict(r, all)
			},
		},
		{
			name: "hands copies of what it holds to a confederate",
			left: map[plan.Channel]string{
				plan.Shuffle: collusion, plan.Shares: collusion, plan.Local: ownNoise,
				plan.Central: "(ε, δ), while the analyzer is honest; **nothing** if it is the confederate"},
			run: func(m *tier) string {
				r := m.next()
				all := m.people(r, size)
				m.release(r, all, lies{})
				if v := m.verdict(r, all); !strings.HasPrefix(v, "counted") {
					return v
				}
				own, analyzers := m.reads(r, all[0], m.ShufflerKey), m.reads(r, all[0], m.AnalyzerKey)
				if own != 0 || analyzers == 0 {
					m.t.Errorf("the shuffler's key opens %d parts of a report, the analyzer's %d", own, analyzers)
				}
				return fmt.Sprintf("succeeds: without the analyzer's key %d parts of a report open, with it all that "+
					"are sealed to it", own)
			},
		},
		{
			name: "says nothing more",
			left: map[plan.Channel]string{
				plan.Shuffle: noRecord, plan.Shares: noRecord, plan.Local: noRecord, plan.Central: noRecord},
			run: func(m *tier) string {
				r := m.next()
				m.people(r, size)
				if _, err := m.shuffler.Mixed.ReadManifest(m.Context(), r.Epoch, 0); !errors.Is(err, bus.ErrGone) {
					return fmt.Sprintf("there is a manifest: %v", err)
				}
				select {
				case <-m.ended:
					return fmt.Sprintf("the analyzer ended: %v", m.failed)
				default:
				}
				return "stopped: nothing is counted" + m.silent(r)
			},
		},
	}
}
