package shuffler

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel/shuffle"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	labels "github.com/riffle-dp/riffle/pkg/channel/shuffle"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// A world is what the readers of a deployment see of one round.
type world struct {
	log      [][]byte // every entry of the audit stream: statements and checkpoints of both servers
	manifest *wire.Manifest
	signed   []byte // the manifest
	chunks   [][]byte
}

// twin is a scene with the same keys, and the same words from the source, on a broker and a disk of its own.
func (s *scene) twin(t *testing.T) *scene {
	t.Helper()
	other := newScene(t)
	other.Analyzer, other.Shuffler, other.Registrar = s.Analyzer, s.Shuffler, s.Registrar
	other.AnalyzerKey, other.ShufflerKey = s.AnalyzerKey, s.ShufflerKey
	other.host, other.credential = s.host, s.credential
	dir := other.config.StateDir
	other.config = s.config
	other.config.StateDir, other.config.Source = dir, rand.NewChaCha8([32]byte{12})
	return other
}

// seen ends the round and returns what is seen of it.
func (s *scene) seen() (w world) {
	s.t.Helper()
	w.manifest = s.manifest(1, 0)
	s.finished()
	var err error
	w.signed, err = s.analyzer.Mixed.ReadManifest(s.Context(), 1, 0)
	s.must(err)
	w.chunks = s.left(1, 0)
	s.must(s.analyzer.Audit.ReadAudit(s.Context(), bus.AuditFilter{}, func(st bus.Statement) error {
		w.log = append(w.log, fmt.Appendf(nil, "%s %s %s", st.Role, st.Kind, st.Payload))
		return nil
	}))
	return w
}

// same demands that two worlds cannot be told apart by any byte.
func same(t *testing.T, what string, a, b world) {
	t.Helper()
	if !bytes.Equal(a.signed, b.signed) || !reflect.DeepEqual(a.manifest, b.manifest) {
		t.Errorf("%s: the manifest tells the worlds apart:\n%+v\n%+v", what, a.manifest, b.manifest)
	}
	if len(a.log) == 0 || !reflect.DeepEqual(a.log, b.log) {
		t.Errorf("%s: the audit log tells the worlds apart: %d and %d entries", what, len(a.log), len(b.log))
	}
	if len(a.chunks) == 0 || !reflect.DeepEqual(a.chunks, b.chunks) {
		t.Errorf("%s: what left tells the worlds apart", what)
	}
}

// crowd is a round of twelve devices whose payloads are made once: two repeat a message, and others send what is
// refused.
type crowd struct {
	a        *plan.Announcement
	payloads [][]byte
}

// play runs a round in which the device at each slot sends the payload that sent names, and reports arrive in this
// order.
func (c crowd) play(s *scene, sent, arrival []int) world {
	s.t.Helper()
	s.start()
	s.open(c.a)
	s.enrol(12)
	for i, slot := range arrival {
		report := wire.Report{Announcement: s.digest, Epoch: 1, Slot: uint32(slot), Device: uint32(slot),
			Payload: c.payloads[sent[slot]]}
		envelope := s.Seal(report, s.host)
		switch slot { // strangers come where they come
		case 1, 5:
			report.Slot, report.Device = 50, 50
			s.send(s.Seal(report, s.host))
		case 2:
			s.send(nil)
		}
		if i == len(arrival)-1 { // the last one closes the round: what is refused must have been refused before
			s.account(0, 0, map[wire.Refusal]int{wire.RefusalNotEnrolled: 2, wire.RefusalWrongSize: 1})
			s.admitted(11)
		}
		s.send(envelope)
	}
	return s.seen()
}

// Neither the log nor what left tells who sent what, or in which order it came. In worlds with the same sealed
// messages, another order of arrival changes no byte. If other devices sent the messages, one field of the manifest
// differs: the digest of the reports, which covers their hosts' signatures, so that nobody who does not hold all of
// them can tell which of the worlds it is of.
func TestTheLogLinksNothing(t *testing.T) {
	t.Parallel()
	for _, mixed := range []plan.Channel{plan.Shuffle, plan.Local, plan.Central} {
		t.Run(string(mixed), func(t *testing.T) {
			t.Parallel()
			first := newScene(t)
			first.config.Source = rand.NewChaCha8([32]byte{12})
			c := first.crowd(mixed)
			random := rand.New(rand.NewPCG(1, 2))
			own := make([]int, 12)
			for i := range own {
				own[i] = i
			}
			arrival, sent := shuffled(random, own), shuffled(random, own)
			a := c.play(first, own, own)
			if a.manifest.Outcome != wire.Released || len(a.log) != 2 {
				t.Fatalf("%+v, and %d entries in the log", a.manifest, len(a.log))
			}
			refused := map[wire.Refusal]int{wire.RefusalNotEnrolled: 2, wire.RefusalWrongSize: 1,
				wire.RefusalRepeatedMessage: 2}
			testbed.RefusedIn(t, a.manifest, refused, map[wire.Refusal]int{wire.RefusalRepeatedMessage: 2})
			same(t, "another order of arrival", a, c.play(first.twin(t), own, arrival))

			b := c.play(first.twin(t), sent, arrival)
			if bytes.Equal(a.manifest.ReportsDigest, b.manifest.ReportsDigest) {
				t.Error("no power: the reports are the same ones")
			}
			unlinked(t, first, &b)
			unlinked(t, first, &a)
			same(t, "other senders", a, b)
		})
	}
}

// unlinked puts zeros in place of a manifest's digest of reports, and signs anew what follows from it.
func unlinked(t *testing.T, s *scene, w *world) {
	t.Helper()
	var log transparency.Tree
	log.Append(w.signed)
	for i, of := range [][]byte{w.signed, s.checkpoint(&log)} {
		if !bytes.HasSuffix(w.log[i], of) {
			t.Fatalf("entry %d of the log is not what follows from the manifest", i)
		}
	}
	w.manifest.ReportsDigest = make([]byte, 32)
	w.signed, _ = s.Sign(w.manifest, s.Shuffler)
	log = transparency.Tree{}
	log.Append(w.signed)
	w.log = [][]byte{w.signed, s.checkpoint(&log)}
}

// checkpoint is what the shuffler signs of a log.
func (s *scene) checkpoint(of *transparency.Tree) []byte {
	s.t.Helper()
	note, err := transparency.Sign(transparency.Checkpoint{
		Origin: transparency.Origin(testbed.Deployment, string(bus.Shuffler)), Size: of.Size(), Root: of.Root(),
	}, s.Shuffler)
	s.must(err)
	return note
}

func shuffled(random *rand.Rand, of []int) []int {
	all := append([]int(nil), of...)
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// crowd announces nothing yet. The shuffler cannot open a message, so that any bytes stand for one.
func (s *scene) crowd(of plan.Channel) (c crowd) {
	s.t.Helper()
	if c.a = s.announcement(); of != plan.Shuffle {
		learner, err := learner.New(testbed.Learner(glm.Practical, 12))
		s.must(err)
		step := learner.Next()
		step.Cohort = 12
		terms := testbed.Terms()
		terms.Channel = of
		c.a = s.Draw(step, terms, 1, nil)
		c.a.Timing.Grace *= 1000
	}
	layout, err := (&shuffle.Mixing{Channel: of}).Layout(c.a)
	s.must(err)
	source := rand.NewChaCha8([32]byte{13})
	for range 12 {
		payload := make([]byte, layout.Size())
		source.Read(payload)
		if of == plan.Shuffle {
			labels.WriteLabels(payload, c.a.Encodings)
		}
		c.payloads = append(c.payloads, payload)
	}
	copy(c.payloads[9], c.payloads[3][:layout.Size()/layout.Messages]) // a message that two of them hold
	return c
}

// In the channel of shares a payload is bound to its sender, and prepare messages leave in the order of digests.
// Another order of arrival changes no byte of what the two servers say, and of what leaves.
func TestTheLogOfSharesTellsNoOrder(t *testing.T) {
	t.Parallel()
	first := newScene(t)
	first.config.Source = rand.NewChaCha8([32]byte{12})
	a := first.sharesRound(12)
	var envelopes [][]byte
	var header []byte
	play := func(s *scene, arrival []int) world {
		s.start()
		s.open(a)
		for device := range uint32(12) {
			reply := s.ask(device)
			if len(envelopes) < 12 { // sealed once, for both worlds
				envelopes = append(envelopes, s.shareReport(device, reply.Commitment, device))
			}
		}
		if header != nil { // it is sealed with fresh randomness, and kept where it was sealed
			s.must(os.WriteFile(filepath.Join(s.config.StateDir, "shares-header-1-0"), header, 0o600))
		}
		for _, slot := range arrival {
			s.send(envelopes[slot])
		}
		if _, err := s.sharesCounts(); err != nil {
			t.Fatal(err)
		}
		w := s.seen()
		chunk, err := wire.ParseChunk(w.chunks[0])
		s.must(err)
		header = chunk.Payload
		return w
	}
	own := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	one := play(first, own)
	if one.manifest.Reports != 12 || len(one.log) < 4 {
		t.Fatalf("%+v, and %d entries in the log", one.manifest, len(one.log))
	}
	same(t, "another order of arrival", one, play(first.twin(t), []int{7, 2, 11, 0, 4, 9, 1, 10, 3, 8, 6, 5}))
}
