package ledger

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/pkg/channel/shuffle"
	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/learn/joint"
	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// maker makes a deployment.
type maker struct {
	o         Options
	l         *Ledger
	src       *rand.ChaCha8
	machine   *deployment.Machine
	curator   *joint.Curator // of the profile joint
	registrar *seal.Identity
	key       *seal.HPKEKey // of the epoch
	devices   uint32        // of the epoch that still take part
}

// append signs a statement, changed where it is tampered with, and appends it to a role's log.
func appendTo[T wire.Statement](m *maker, role bus.Role, kind string, s *T, tamper func(*T)) ([32]byte, error) {
	if tamper != nil {
		tamper(s)
	}
	signed, digest, err := wire.Sign(s, m.l.Identity(role))
	if err != nil {
		return digest, fmt.Errorf("%s: %w", kind, err)
	}
	m.l.Logs[role] = append(m.l.Logs[role], audit.Entry{Kind: kind, Signed: signed})
	return digest, nil
}

// run goes from the configuration to the end.
func (m *maker) run() (err error) {
	if m.machine, err = deployment.New(m.o.Configuration); err != nil {
		return err
	}
	if c := m.machine.Curated(); c != nil {
		m.curator = joint.NewCurator(c.Config(), source(m.o.Seed, "curator"))
	}
	c := m.machine.Configuration()
	if _, err := appendTo(m, bus.Analyzer, wire.KindConfiguration, &c, m.o.Tamper.Configuration); err != nil {
		return err
	}
	for n := 0; ; n++ {
		if err := m.rotate(); err != nil {
			return err
		}
		contribution := words(source(m.o.Seed, fmt.Sprintf("contribution %d", n)))
		commitment := panel.Commit(contribution[:])
		if m.o.Ask != nil && m.machine.Begins() {
			epoch, _ := m.machine.Position()
			if kind, q := m.o.Ask(epoch); q != nil {
				if err := m.machine.Ask(kind, q); err != nil {
					return err
				}
			}
		}
		next, err := m.machine.Next(m.key.Public(), commitment[:])
		if err != nil {
			return err
		}
		announced := next.Clone()
		digest, err := appendTo(m, bus.Analyzer, wire.KindAnnouncement, announced, m.o.Tamper.Announcement)
		if err != nil {
			return err
		}
		m.machine.Announced(announced, digest)
		if announced.Final || m.o.Rounds > 0 && n == m.o.Rounds {
			return nil
		}
		if next.Plan.Panel != nil {
			if err := m.draw(announced, digest, contribution); err != nil {
				return err
			}
		}
		if err := m.round(announced, digest); err != nil {
			return fmt.Errorf("round %d of epoch %d: %w", announced.Round, announced.Epoch, err)
		}
	}
}

// rotate makes the analyzer's HPKE key, or another one.
func (m *maker) rotate() (err error) {
	if n := len(m.l.HPKE); n == 0 || m.o.Rotate {
		if m.key, err = hpke(m.o.Seed, fmt.Sprintf("analyzer %d", n)); err != nil {
			return err
		}
		m.l.HPKE = append(m.l.HPKE, m.key)
	}
	return nil
}

// round goes from an announcement to what was learned.
func (m *maker) round(a *plan.Announcement, digest [32]byte) error {
	if a.Round == 0 {
		m.devices = a.Cohort.Size
	}
	reports := m.devices - uint32(m.src.Uint64()%uint64(m.devices-a.Cohort.Minimum+1))
	m.devices = reports // who does not report in a round takes no part in those after it
	destroyed := m.o.Destroyed != nil && m.o.Destroyed(a.Epoch, a.Round)
	if destroyed {
		reports = a.Cohort.Minimum - 1
	}
	counts := &wire.Counts{
		Deployment: a.Deployment, Epoch: a.Epoch, Round: a.Round, Announcement: digest[:], Reports: reports,
		Destroyed: destroyed,
	}
	manifest := &wire.Manifest{
		Deployment: a.Deployment, Epoch: a.Epoch, Round: a.Round, Announcement: digest[:], Outcome: wire.Destroyed,
		Enrolled: a.Cohort.Size, Reports: reports,
	}
	if !destroyed {
		releases, messages, err := m.people(a, digest, int(reports))
		if err != nil {
			return err
		}
		counts.Releases = releases
		if m.o.Tamper.Sent != nil {
			messages = m.o.Tamper.Sent(a.Epoch, a.Round, messages)
		}
		if err := m.complete(a, manifest, messages); err != nil {
			return err
		}
		if a.Plan.Channel == plan.Shares {
			if err := m.exchange(a, digest, reports); err != nil {
				return err
			}
		}
		if err := m.retain(a, digest, manifest, messages); err != nil {
			return err
		}
	}
	mixed, err := appendTo(m, bus.Shuffler, wire.KindManifest, manifest, m.o.Tamper.Manifest)
	if err != nil {
		return err
	}
	counts.Manifest = mixed[:]
	honest := *counts
	honest.Releases = nil
	for _, r := range counts.Releases {
		honest.Releases = append(honest.Releases, wire.ReleaseCounts{
			Ones: slices.Clone(r.Ones), Curated: r.Curated, Entries: slices.Clone(r.Entries)})
	}
	counted, err := appendTo(m, bus.Analyzer, wire.KindCounts, counts, m.o.Tamper.Counts)
	if err != nil {
		return err
	}
	if m.learnable(a, counts) {
		honest = *counts
		honest.Announcement = digest[:]
	}
	learned, err := m.machine.Absorb(&honest, counted)
	if err != nil {
		return err
	}
	learned.Version = Version
	_, err = appendTo(m, bus.Analyzer, wire.KindLearned, learned, m.o.Tamper.Learned)
	return err
}

// learnable reports whether counts are such that something can be learned from them.
func (m *maker) learnable(a *plan.Announcement, counts *wire.Counts) bool {
	if counts.Destroyed || m.curator != nil {
		return true
	}
	_, err := deployment.Sums(a, counts)
	return err == nil
}

// complete fills in the manifest of a release; without messages with digests of some.
func (m *maker) complete(a *plan.Announcement, manifest *wire.Manifest, messages [][]byte) error {
	noise := shuffle.NoiseMessages(a)
	manifest.Outcome = wire.Released
	manifest.NoiseMessages, manifest.Messages = noise, uint64(manifest.Reports)*uint64(a.ReportMessages())+noise
	reports := words(m.src)
	manifest.ReportsDigest = reports[:]
	digests := [][32]byte{words(m.src)}
	manifest.Chunks = uint32((manifest.Messages + wire.MaxChunkMessages - 1) / wire.MaxChunkMessages)
	all := words(m.src)
	if messages != nil {
		digests = nil
		for _, message := range messages {
			digests = append(digests, sha256.Sum256(message))
		}
		chunks, err := chunksOf(manifest, messages)
		if err != nil {
			return err
		}
		var each [][32]byte
		for _, c := range chunks {
			each = append(each, wire.ChunkDigest(c))
		}
		all, manifest.Chunks = wire.ChunksDigest(each), uint32(len(chunks))
	}
	manifest.ChunksDigest = all[:]
	root := transparency.SortedRoot(digests)
	manifest.MessagesRoot = root[:]
	return nil
}

// exchange appends what both servers of the channel shares say of the accepted set.
func (m *maker) exchange(a *plan.Announcement, digest [32]byte, reports uint32) error {
	set, share := words(m.src), words(m.src)
	if _, err := appendTo(m, bus.Analyzer, wire.AcceptedKind(a.Epoch, a.Round), &wire.Accepted{
		Deployment: a.Deployment, Epoch: a.Epoch, Round: a.Round, Announcement: digest[:], Reports: reports,
		Set: set[:],
	}, m.o.Tamper.Accepted); err != nil {
		return err
	}
	_, err := appendTo(m, bus.Shuffler, wire.SummedKind(a.Epoch, a.Round), &wire.Summed{
		Deployment: a.Deployment, Epoch: a.Epoch, Round: a.Round, Announcement: digest[:], Reports: reports,
		Set:   set[:],
		Share: share[:],
	}, m.o.Tamper.Summed)
	return err
}

// chunkMessages is how many messages are in a chunk: few, so that there are several.
const chunkMessages = 100

// chunksOf are the chunks of a release.
func chunksOf(m *wire.Manifest, messages [][]byte) (chunks [][]byte, err error) {
	for len(messages) > 0 {
		n := min(chunkMessages, len(messages))
		c, err := wire.BuildChunk(wire.Chunk{
			Epoch: m.Epoch, Round: m.Round, Index: uint32(len(chunks)), Payload: bytes.Join(messages[:n], nil),
		})
		if err != nil {
			return nil, err
		}
		chunks, messages = append(chunks, c), messages[n:]
	}
	return chunks, nil
}
