package witness_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/audit/witness"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/transparency"
)

const deployment = "trial"

var first = time.Unix(1_700_000_000, 0).UTC()

// view is one face of a role's log.
type view struct {
	audit.Source
	leaves     []string
	checkpoint []byte
}

func (v *view) Log(_ context.Context, _ bus.Role, f func(audit.Entry) error) error {
	for _, leaf := range v.leaves {
		if err := f(audit.Entry{Signed: []byte(leaf)}); err != nil {
			return err
		}
	}
	return nil
}

func (v *view) Checkpoint(context.Context, bus.Role) ([]byte, error) { return v.checkpoint, nil }

// scene is a role with a key, and a witness with its folders.
type scene struct {
	t          *testing.T
	role       *seal.Identity
	key        string // file
	state, out string
	looks      int
}

func newScene(t *testing.T) *scene {
	t.Helper()
	dir := t.TempDir()
	s := &scene{
		t:     t,
		key:   filepath.Join(dir, "key"),
		state: filepath.Join(dir, "state"),
		out:   filepath.Join(dir, "out"),
	}
	var err error
	if s.role, err = seal.GenerateIdentity(); err != nil {
		t.Fatal(err)
	}
	if _, err = witness.Generate(s.key, "w1"); err != nil {
		t.Fatal(err)
	}
	return s
}

// shows is the log of these leaves with a checkpoint over all of them.
func (s *scene) shows(leaves ...string) *view {
	s.t.Helper()
	var tree transparency.Tree
	for _, leaf := range leaves {
		tree.Append([]byte(leaf))
	}
	signed, err := transparency.Sign(transparency.Checkpoint{
		Origin: transparency.Origin(deployment, "shuffler"), Size: tree.Size(), Root: tree.Root(),
	}, s.role)
	if err != nil {
		s.t.Fatal(err)
	}
	return &view{leaves: leaves, checkpoint: signed}
}

func (s *scene) log() witness.Log {
	return witness.Log{Deployment: deployment, Role: bus.Shuffler, Key: s.role.Public()}
}

// witness is the witness as a process that starts now has it.
func (s *scene) witness() *witness.Witness {
	s.t.Helper()
	w, err := witness.Load(s.key, s.state, s.out)
	if err != nil {
		s.t.Fatal(err)
	}
	return w
}

// look has a witness that starts now look at a view.
func (s *scene) look(v audit.Source) (*witness.Seen, error) {
	s.t.Helper()
	s.looks++
	return s.witness().Look(s.t.Context(), v, s.log(), s.at())
}

func (s *scene) at() time.Time { return first.Add(time.Duration(s.looks) * time.Minute) }

// cosigned is what the witness published; the file may not be there.
func (s *scene) cosigned() []byte {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(s.out, "shuffler.w1.checkpoint"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Fatal(err)
	}
	return b
}

// signed checks that the witness just co-signed a log of this size.
func (s *scene) signed(size uint64) {
	s.t.Helper()
	name, key, err := witness.LoadPublic(s.key + ".pub")
	if err != nil {
		s.t.Fatal(err)
	}
	c, at, err := transparency.OpenCosigned(s.cosigned(), transparency.Origin(deployment, "shuffler"), s.role.Public(),
		name, key)
	if err != nil || c.Size != size || !at.Equal(s.at()) {
		s.t.Errorf("%d entries at %v, %v", c.Size, at, err)
	}
}

// refused has the witness look at what it must not sign, and checks that nothing was signed and nothing forgotten.
func (s *scene) refused(v audit.Source, want error, words ...string) {
	s.t.Helper()
	before := s.cosigned()
	seen, err := s.look(v)
	if !errors.Is(err, want) || seen != nil {
		s.t.Errorf("%+v, %v; want %v", seen, err, want)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			s.t.Errorf("%q does not say %q", err, word)
		}
	}
	if !bytes.Equal(s.cosigned(), before) {
		s.t.Error("it signed")
	}
}

// A log that only grows is co-signed each time, by a witness that is restarted before every look.
func TestALogThatGrowsIsCosigned(t *testing.T) {
	s := newScene(t)
	if seen, err := s.look(&view{}); err != nil || !seen.Empty || s.cosigned() != nil {
		t.Errorf("without a checkpoint: %+v, %v", seen, err)
	}
	var leaves []string
	before := 0
	for i, more := range []int{1, 1, 0, 4, 60} {
		for range more {
			leaves = append(leaves, fmt.Sprint("leaf ", len(leaves)))
		}
		v := s.shows(leaves...)
		v.leaves = append(v.leaves, "one that no checkpoint covers yet")
		seen, err := s.look(v)
		if err != nil || *seen != (witness.Seen{Size: uint64(len(leaves)), Before: uint64(before), First: i == 0}) {
			t.Errorf("%+v, %v", seen, err)
		}
		s.signed(uint64(len(leaves)))
		before = len(leaves)
	}
}

// Whatever contradicts what was seen is refused, by a witness that was restarted, and the words name both checkpoints.
func TestWhatContradictsIsRefused(t *testing.T) {
	s := newScene(t)
	seen := s.shows("a", "b", "c")
	if _, err := s.look(seen); err != nil {
		t.Fatal(err)
	}
	was := "this witness saw the checkpoint of 3 entries with the root " + s.root("a", "b", "c")
	s.refused(s.shows("a", "b"), witness.ErrRefused, was, "2 entries with the root "+s.root("a", "b"), "rewound")
	s.refused(s.shows("a", "x"), witness.ErrRefused, was, s.root("a", "x"))
	s.refused(s.shows("a", "b", "x"), witness.ErrRefused, was, s.root("a", "b", "x"), "two logs")
	bare := s.shows("a", "b", "x") // whatever leaves it shows, the two checkpoints are the proof
	bare.leaves = []string{"a", "b", "c"}
	s.refused(bare, witness.ErrRefused, was, s.root("a", "b", "x"), "two logs of one length")
	s.refused(s.shows("a", "x", "c", "d"), witness.ErrRefused, was, s.root("a", "x", "c", "d"), "two logs")
	s.refused(s.shows("b", "a", "c", "d", "e"), witness.ErrRefused, was)
	s.refused(&view{}, witness.ErrRefused, was, "rewound")
	missing := s.shows("a", "b", "c", "d")
	missing.leaves = missing.leaves[:3]
	s.refused(missing, witness.ErrRefused, "only 3 entries")
	other := s.shows("a", "b", "c", "d")
	other.leaves = []string{"a", "b", "c", "x"}
	s.refused(other, witness.ErrRefused, "their root is "+s.root("a", "b", "c", "x"))
	hidden := s.shows("a", "x", "c", "d") // the true leaves beside a checkpoint of others
	hidden.leaves = []string{"a", "b", "c", "d"}
	s.refused(hidden, witness.ErrRefused)
	if _, err := s.look(s.shows("a", "b", "c", "d")); err != nil {
		t.Errorf("the honest log after all this: %v", err)
	}
	s.signed(4)
}

// root is that of a log of these leaves.
func (s *scene) root(leaves ...string) string {
	var tree transparency.Tree
	for _, leaf := range leaves {
		tree.Append([]byte(leaf))
	}
	return fmt.Sprintf("%x", tree.Root())
}

// A checkpoint that the role did not sign proves nothing and is not signed.
func TestAForgedCheckpointIsNotSigned(t *testing.T) {
	s := newScene(t)
	thief := *s
	var err error
	if thief.role, err = seal.GenerateIdentity(); err != nil {
		t.Fatal(err)
	}
	s.refused(thief.shows("a"), transparency.ErrUnsigned)
	s.refused(&view{checkpoint: []byte("junk")}, transparency.ErrCheckpoint)
}

// Without its state a witness goes by what it published. Without that as well it says that it begins.
func TestAWitnessWhoseStateIsGone(t *testing.T) {
	s := newScene(t)
	if _, err := s.look(s.shows("a", "b", "c")); err != nil {
		t.Fatal(err)
	}
	older := filepath.Join(t.TempDir(), "older")
	if err := os.CopyFS(older, os.DirFS(s.state)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.look(s.shows("a", "b", "c", "d")); err != nil {
		t.Fatal(err)
	}
	newest := s.state
	for _, state := range []string{older, filepath.Join(t.TempDir(), "empty")} {
		s.state = state
		s.refused(s.shows("a", "b", "c", "x", "e"), witness.ErrRefused, "4 entries")
		s.refused(s.shows("a", "b", "c"), witness.ErrRefused, "4 entries")
	}
	published := s.out
	s.out = filepath.Join(t.TempDir(), "out") // and what it published is not needed where there is state
	s.state = newest
	s.refused(s.shows("a", "b", "c", "x", "e"), witness.ErrRefused, "4 entries")
	s.state = filepath.Join(t.TempDir(), "gone")
	seen, err := s.look(s.shows("a", "x"))
	if err != nil || !seen.First || seen.Before != 0 {
		t.Errorf("%+v, %v", seen, err)
	}
	s.signed(2)
	s.out = published // another's file there is not its own word
	forged := append(bytes.Clone(s.shows("y", "y", "y", "y", "y", "y").checkpoint), "— w1 AAAAAAAAAA==\n"...)
	if err := os.WriteFile(filepath.Join(s.out, "shuffler.w1.checkpoint"), forged, 0o600); err != nil {
		t.Fatal(err)
	}
	if seen, err := s.look(s.shows("a", "x", "z")); err != nil || seen.Before != 2 {
		t.Errorf("%+v, %v", seen, err)
	}
}

// full is a disk that takes nothing.
type full struct{ channel.Disk }

func (full) Store(string, func(io.Writer) error) error { return errFull }

var errFull = errors.New("full")

// What a witness cannot keep it does not sign: after a crash it would sign the opposite.
func TestNothingIsSignedThatIsNotKept(t *testing.T) {
	s := newScene(t)
	w := s.witness()
	w.State = full{w.State}
	if _, err := w.Look(t.Context(), s.shows("a"), s.log(), first); !errors.Is(err, errFull) || s.cosigned() != nil {
		t.Errorf("%v; %q was signed", err, s.cosigned())
	}
}

// State of another deployment, or damaged, is not taken for none.
func TestStateThatIsNotOfThisLog(t *testing.T) {
	s := newScene(t)
	if _, err := s.look(s.shows("a")); err != nil {
		t.Fatal(err)
	}
	log := s.log()
	log.Deployment = "other"
	if _, err := s.witness().Look(t.Context(), s.shows("a"), log, first); !errors.Is(err, transparency.ErrUnsigned) {
		t.Errorf("another deployment: %v", err)
	}
	if err := os.WriteFile(filepath.Join(s.state, "shuffler.checkpoint"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.refused(s.shows("a", "b"), transparency.ErrCheckpoint, "damaged")
}

// A key is made once, and its public line says whose it is.
func TestKeysAreNotOverwrittenOrMixed(t *testing.T) {
	s := newScene(t)
	if _, err := witness.Generate(s.key, "w2"); err == nil {
		t.Error("overwritten")
	}
	if _, err := witness.Generate(s.key+"2", "a b"); !errors.Is(err, transparency.ErrName) {
		t.Error(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	line, err := witness.Generate(other, "w1")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.key+".pub", []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := witness.Load(s.key, s.state, s.out); err == nil {
		t.Error("the key of one and the line of another")
	}
}
