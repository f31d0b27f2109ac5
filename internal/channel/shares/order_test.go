package shares

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// steps is what one server did, in its order: a file is "stored" and a statement "logged" when the call returned
// without an error, and a statement is "said" and a message "sent" when the call begins.
type steps struct {
	t   *testing.T
	mu  sync.Mutex
	all []string
	of  map[string][]byte // bytes of the first step of a name
}

func newSteps(t *testing.T) *steps { return &steps{t: t, of: map[string][]byte{}} }

func (s *steps) note(step string, b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all = append(s.all, step); s.of[step] == nil {
		s.of[step] = bytes.Clone(b)
	}
}

// has reports whether the step was done.
func (s *steps) has(step string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.all, step)
}

// inOrder demands that all these steps were done, each for the first time after the one before.
func (s *steps) inOrder(chain ...string) {
	s.t.Helper()
	at := -1
	for i, step := range chain {
		next := slices.Index(s.all, step)
		if next < 0 {
			s.t.Errorf("never: %s", step)
			continue
		}
		if next < at {
			s.t.Errorf("%q comes before %q", step, chain[i-1])
		}
		at = next
	}
	if s.t.Failed() {
		s.t.Logf("the steps are %q", s.all)
	}
}

// notedDisk notes what is durable.
type notedDisk struct {
	channel.Disk
	*steps
}

func (n notedDisk) Store(name string, write func(io.Writer) error) error {
	var content bytes.Buffer
	err := n.Disk.Store(name, func(w io.Writer) error { return write(io.MultiWriter(w, &content)) })
	if err == nil {
		n.note("stored "+name, content.Bytes())
	}
	return err
}

// notedCounter notes what leaves the analyzer.
type notedCounter struct {
	CountingBroker
	*steps
}

func (n notedCounter) PublishPrepared(ctx context.Context, epoch uint64, round, index uint32, payload []byte) error {
	n.note(fmt.Sprintf("sent answer %d", index), payload)
	return n.CountingBroker.PublishPrepared(ctx, epoch, round, index, payload)
}

func (n notedCounter) AppendAudit(ctx context.Context, kind string, payload []byte) error {
	n.note("said "+kind, payload)
	err := n.CountingBroker.AppendAudit(ctx, kind, payload)
	if err == nil {
		n.note("logged "+kind, payload)
	}
	return err
}

// notedMixer notes what leaves the shuffler, and what it finds in the audit log. For the first hidden looks the log
// does not show the analyzer's statement yet.
type notedMixer struct {
	MixingBroker
	*steps
	hidden *int
	early  func() // called while the log does not show the statement
}

func (n notedMixer) PublishChunk(ctx context.Context, epoch uint64, round, index uint32, payload []byte) error {
	n.note(fmt.Sprintf("sent chunk %d", index), payload)
	return n.MixingBroker.PublishChunk(ctx, epoch, round, index, payload)
}

func (n notedMixer) ReadPrepared(ctx context.Context, epoch uint64, round, index uint32) ([]byte, error) {
	b, err := n.MixingBroker.ReadPrepared(ctx, epoch, round, index)
	if err == nil {
		n.note(fmt.Sprintf("read answer %d", index), b)
	}
	return b, err
}

func (n notedMixer) Audited(ctx context.Context, role bus.Role, kind string, payload []byte) (bool, error) {
	if *n.hidden > 0 {
		*n.hidden--
		n.early()
		return false, nil
	}
	in, err := n.MixingBroker.Audited(ctx, role, kind, payload)
	if in && err == nil {
		n.note("found "+kind, payload)
	}
	return in, err
}

func (n notedMixer) AppendAudit(ctx context.Context, kind string, payload []byte) error {
	n.note("said "+kind, payload)
	err := n.MixingBroker.AppendAudit(ctx, kind, payload)
	if err == nil {
		n.note("logged "+kind, payload)
	}
	return err
}

// Over a whole release everything is durable at the analyzer before what depends on it leaves: the secret and the
// header before all answers, each answer before it is sent, who takes part before the set is signed, and the statement
// on the disk, then in the audit log, before the shuffler sees it. What is durable is what leaves.
func TestTheAnalyzerKeepsEverythingBeforeItLeaves(t *testing.T) {
	t.Parallel()
	s, done := newDeployment(t).newScene(size), newSteps(t)
	s.exact(s.released(s.runOn(s.mixDisk, s.toMix(), notedDisk{s.countDisk, done}, notedCounter{s.toCount(), done}),
		nil))
	accepted := wire.AcceptedKind(s.a.Epoch, 0)
	chain := []string{"stored shares-secret-1", "stored " + name("taken", 1, 0)}
	for i := range uint32(3) {
		kept, sent := "stored "+answerName(1, 0, i+1), fmt.Sprintf("sent answer %d", i+1)
		chain = append(chain, kept, sent)
		chunk := wire.ChunkDigest(s.sent[i+1])
		if !bytes.Equal(done.of[kept], append(chunk[:], done.of[sent]...)) {
			t.Errorf("what is kept is not what leaves: %s", sent)
		}
	}
	statement := "stored " + name("statement", 1, 0)
	done.inOrder(append(chain, "stored participants-1", statement, "said "+accepted, "logged "+accepted,
		"sent answer 0", "stored "+name("counts", 1, 0))...)
	for _, out := range []string{"said " + accepted, "sent answer 0"} {
		if !bytes.Equal(done.of[out], done.of[statement]) {
			t.Errorf("what is kept is not what leaves: %s", out)
		}
	}
	header, err := wire.ParseChunk(s.sent[0])
	s.must(err)
	digest := wire.ChunkDigest(s.sent[0])
	if !bytes.Equal(done.of["stored "+name("taken", 1, 0)], append(digest[:], header.Payload...)) {
		t.Error("the header that is kept is not the one that was taken")
	}
}

// Over a whole release everything is durable at the shuffler before what depends on it leaves: the header before it is
// sent, the noised share before its statement, and that in the audit log before the share. The share is not made before
// the analyzer's statement was found in the audit log.
func TestTheShufflerKeepsEverythingBeforeItLeaves(t *testing.T) {
	t.Parallel()
	s, done, none := newDeployment(t).newScene(size), newSteps(t), 0
	s.exact(s.released(s.runOn(notedDisk{s.mixDisk, done}, notedMixer{s.toMix(), done, &none, nil},
		s.countDisk, s.toCount()), nil))
	accepted, summed := wire.AcceptedKind(s.a.Epoch, 0), wire.SummedKind(s.a.Epoch, 0)
	// A shuffler that waits for answer 3 looks for the statement, answer 0, and may see it first.
	done.inOrder("sent chunk 3", "read answer 3", "found "+accepted)
	done.inOrder("stored "+name("header", 1, 0), "sent chunk 0", "sent chunk 1", "sent chunk 2", "sent chunk 3",
		"read answer 0", "found "+accepted, "stored "+name("sum", 1, 0), "said "+summed, "logged "+summed,
		"sent chunk 4")
	if !bytes.Equal(done.of["found "+accepted], done.of["read answer 0"]) {
		t.Error("the statement that was found in the log is not the one that the analyzer sent")
	}
}

// As long as the audit log does not show the analyzer's statement, the shuffler waits: its noise is not drawn, and
// nothing is said or sent of the sum.
func TestNoSumLeavesBeforeTheSetIsInTheLog(t *testing.T) {
	t.Parallel()
	s, done, hidden, looks := newDeployment(t).newScene(size, noise(8, 0)), newSteps(t), 2, 0
	drawn := 0
	s.mixing = func(m *Mixing) { m.Source = counted{&drawn} }
	e := s.runOn(notedDisk{s.mixDisk, done}, notedMixer{s.toMix(), done, &hidden, func() {
		looks++
		if drawn != 0 {
			t.Error("the shuffler's noise is drawn before the statement is in the log")
		}
		for _, step := range []string{"stored " + name("sum", 1, 0), "said " + wire.SummedKind(1, 0), "sent chunk 4"} {
			if done.has(step) {
				t.Errorf("before the statement is in the log: %s", step)
			}
		}
	}}, s.countDisk, s.toCount())
	s.within(s.released(e, nil), 8)
	if looks != 2 || drawn == 0 {
		t.Errorf("%d looks at the log in vain, want 2; %d numbers drawn for the noise", looks, drawn)
	}
	done.inOrder("found "+wire.AcceptedKind(1, 0), "stored "+name("sum", 1, 0), "sent chunk 4")
}

// A header and a statement are final: an analyzer that begins anew, without what it had at the broker, takes no
// other header of the round, and says again what it signed first.
func TestAnAnalyzerThatBeginsAnewStandsByItsStatement(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).newScene(size)
	s.exact(s.released(s.run(), nil))
	first := bytes.Clone(s.said[statementIndex])
	s.must(s.analyzer.Mixed.PurgeMixed(s.Context(), s.a.Epoch, 0))
	s.must(s.analyzer.Prepared.PurgePrepared(s.Context(), s.a.Epoch, 0))
	s.sent, s.said = map[uint32][]byte{}, map[uint32][]byte{}
	// This shuffler lost its folder and does not look into the log, so it seals its header again.
	s.impossible(s.runOn(channel.Folder(t.TempDir()), deaf{s.toMix()}, s.countDisk, s.toCount()), wire.RefusalSecondSet)
	if again := s.said[statementIndex]; len(s.said) != 1 || !bytes.Equal(again, first) {
		t.Errorf("%d answers leave, and the statement is %x, want only %x", len(s.said), again, first)
	}
}
