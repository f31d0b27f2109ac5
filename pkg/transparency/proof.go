package transparency

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/transparency-dev/formats/proof"
	"golang.org/x/mod/sumdb/note"
)

// MaxProof bounds the bytes of a proof: a checkpoint, a line for each level of the largest tree, and two more.
const MaxProof = MaxCheckpoint + 64*45 + 64

// ErrProof means bytes that are no proof.
var ErrProof = errors.New("transparency: not a proof of a statement in a log")

// Proof shows that a statement is in a log, to who has nothing else of it. Its bytes are text in the format of C2SP
// tlog-proof, without extra data.
type Proof struct {
	Index      uint64 // of the statement, from 0
	Hashes     []Hash // as Prove makes them
	Checkpoint []byte // signed, with the cosignatures of witnesses
}

// Encode is the proof as DecodeProof reads it.
func (p Proof) Encode() []byte {
	return proof.TLogProof{Index: p.Index, Hashes: p.Hashes, Checkpoint: p.Checkpoint}.Marshal()
}

// DecodeProof reads a proof and verifies nothing. It accepts only the bytes that Encode makes. The error wraps
// ErrProof.
func DecodeProof(b []byte) (Proof, error) {
	if len(b) > MaxProof {
		return Proof{}, fmt.Errorf("%w: %d bytes, at most %d", ErrProof, len(b), MaxProof)
	}
	var found proof.TLogProof
	if err := found.Unmarshal(b); err != nil {
		return Proof{}, fmt.Errorf("%w: %w", ErrProof, err)
	}
	p := Proof{Index: found.Index, Hashes: found.Hashes, Checkpoint: found.Checkpoint}
	if !bytes.Equal(p.Encode(), b) {
		return Proof{}, fmt.Errorf("%w: not written as a proof is", ErrProof)
	}
	return p, nil
}

// Witness is who co-signs checkpoints.
type Witness struct {
	Name string // CheckName
	Key  []byte // Ed25519 public key
}

// Witnesses are those whose word on a log is taken, if Quorum of them say the same.
type Witnesses struct {
	All    []Witness
	Quorum int // more than half of them, so that two quorums share a witness; 0 where there are none
}

// Check refuses a quorum that is none, a name or key that no witness can have, and a key that is there twice.
func (w Witnesses) Check() error {
	if n := len(w.All); w.Quorum > n || w.Quorum < (n+2)/2 && n > 0 || w.Quorum < 0 {
		return fmt.Errorf("transparency: a quorum of %d out of %d witnesses: it must be more than half of them, "+
			"and at most all", w.Quorum, n)
	}
	for i, one := range w.All {
		if _, err := VerifierKey(one.Name, one.Key); err != nil {
			return err
		}
		if slices.ContainsFunc(w.All[:i], func(o Witness) bool { return bytes.Equal(o.Key, one.Key) }) {
			return fmt.Errorf("transparency: the key of the witness %s is there twice", one.Name)
		}
	}
	return nil
}

// Open is Open for a checkpoint that a quorum of the witnesses co-signed. Where there are no witnesses there is no
// quorum. Errors: ErrCheckpoint, ErrUnsigned.
func (w Witnesses) Open(signed []byte, origin string, key []byte) (Checkpoint, error) {
	c, err := Open(signed, origin, key)
	if err != nil {
		return Checkpoint{}, err
	}
	n := 0
	for _, one := range w.All {
		if _, _, err := OpenCosigned(signed, origin, key, one.Name, one.Key); err == nil {
			n++
		}
	}
	if w.Quorum < 1 || n < w.Quorum {
		return Checkpoint{}, fmt.Errorf("%w: %d of %d witnesses co-signed it, %d must", ErrUnsigned, n, len(w.All),
			w.Quorum)
	}
	return c, nil
}

// Merge is one checkpoint with the signatures of several that state the same. It verifies none. The error wraps
// ErrCheckpoint.
func Merge(signed ...[]byte) ([]byte, error) {
	var all *note.Note
	for _, s := range signed {
		n, err := parse(s)
		switch {
		case err != nil:
			return nil, err
		case all == nil:
			all = n
			continue
		case n.Text != all.Text:
			return nil, fmt.Errorf("%w: two that state different things cannot be merged", ErrCheckpoint)
		}
		for _, s := range n.UnverifiedSigs {
			if !slices.Contains(all.UnverifiedSigs, s) {
				all.UnverifiedSigs = append(all.UnverifiedSigs, s)
			}
		}
	}
	if all == nil {
		return nil, fmt.Errorf("%w: there is none", ErrCheckpoint)
	}
	merged, err := note.Sign(all)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	if _, err := parse(merged); err != nil { // there may be no room for so many signatures
		return nil, err
	}
	return merged, nil
}
