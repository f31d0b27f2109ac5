package transparency

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"

	"github.com/riffle-dp/riffle/pkg/seal"
)

// MaxCheckpoint bounds the bytes of a checkpoint with its signatures: room for the 100 that a note may have.
const MaxCheckpoint = 64 << 10

// MaxName bounds the bytes of a witness's name.
const MaxName = 63

// Errors of checkpoints.
var (
	// ErrCheckpoint means bytes that are no checkpoint, or one of another log.
	ErrCheckpoint = errors.New("transparency: not a checkpoint of this log")
	// ErrUnsigned means that a checkpoint lacks a signature of the key, or has one that does not verify.
	ErrUnsigned = errors.New("transparency: the checkpoint is not signed with this key")
	// ErrName means a name that no witness can have.
	ErrName = errors.New("transparency: not a witness's name")
)

// Checkpoint is a role's statement of its whole log.
type Checkpoint struct {
	Origin string // which log: see Origin
	Size   uint64 // number of leaves
	Root   Hash
}

// Origin names the log of a role (shuffler or analyzer) in a deployment. It is the first line of what the role signs in
// a checkpoint, and the name of the key in it.
//
// The role signs statements with the same Ed25519 key, as a domain "riffle/v1/<kind>\x00" and a body. No signature of
// one is one of the other, whatever the deployment and the role are called, even "v1" and "manifest": a statement's
// domain holds a zero byte, and a note may hold none (seal.SignText refuses it).
func Origin(deployment, role string) string { return "riffle/" + deployment + "/" + role }

// Sign is the checkpoint as a note with the role's signature: the same bytes each time. The error wraps ErrCheckpoint
// where the origin cannot be in a note.
func Sign(c Checkpoint, by *seal.Identity) ([]byte, error) {
	signed, err := note.Sign(&note.Note{Text: c.text()}, signer{c.Origin,
		keyID(c.Origin, algorithmEd25519, by.Public()),
		func(text []byte) ([]byte, error) { return seal.SignText(text, by) }})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	return signed, nil
}

// Open verifies a checkpoint of the log with this origin and Ed25519 public key. Other signatures may be below that
// of the role, as those of witnesses; they are not looked at. The text must be the one that Sign makes, without further
// lines. Errors: ErrCheckpoint, ErrUnsigned.
func Open(signed []byte, origin string, key []byte) (Checkpoint, error) {
	return open(signed, origin, roleKey(origin, key))
}

// Cosign adds a witness's signature to a checkpoint, below the others, and returns the whole. The signature says that
// at this time, rounded down to whole seconds as the format has it, the witness knew of no checkpoint of this log that
// this one does not extend. One that the witness made of it before is replaced. Cosign checks no other signature: Open
// first. The error wraps ErrName or ErrCheckpoint.
func Cosign(signed []byte, name string, by *seal.Identity, at time.Time) ([]byte, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	seconds := at.Unix()
	if seconds < 0 {
		return nil, fmt.Errorf("%w: a cosignature of %v, before 1970", ErrCheckpoint, at)
	}
	n, err := parse(signed)
	if err != nil {
		return nil, err
	}
	both, err := note.Sign(n, signer{name, keyID(name, algorithmCosignature, by.Public()),
		func(text []byte) ([]byte, error) {
			signature, err := seal.SignText(cosigned(uint64(seconds), text), by)
			return append(binary.BigEndian.AppendUint64(nil, uint64(seconds)), signature...), err
		}})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	if _, err := parse(both); err != nil { // there may be no room for another signature
		return nil, err
	}
	return both, nil
}

// OpenCosigned is Open for a checkpoint that a witness co-signed, and says when. Errors: ErrCheckpoint, ErrUnsigned,
// which says whose signature it is about, ErrName.
func OpenCosigned(
	signed []byte, origin string, key []byte, name string, witness []byte,
) (Checkpoint, time.Time, error) {
	if err := CheckName(name); err != nil {
		return Checkpoint{}, time.Time{}, err
	}
	c, err := open(signed, origin, roleKey(origin, key))
	if err != nil {
		return Checkpoint{}, time.Time{}, err
	}
	var at uint64
	_, err = open(signed, origin, verifier{name, keyID(name, algorithmCosignature, witness),
		func(text, signature []byte) bool {
			if len(signature) != timeSize+seal.SignatureSize {
				return false
			}
			at = binary.BigEndian.Uint64(signature)
			return at < 1<<62 && seal.VerifyText(cosigned(at, text), witness, signature[timeSize:]) == nil
		}})
	if err != nil {
		return Checkpoint{}, time.Time{}, fmt.Errorf("witness %s: %w", name, err)
	}
	return c, time.Unix(int64(at), 0).UTC(), nil
}

// CheckName accepts what a witness can be called: 1 to MaxName letters, digits, dots, - and _, the first a letter or a
// digit, so that a name can be part of a file's. The error wraps ErrName.
func CheckName(name string) error {
	plain := func(c rune) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' }
	odd := strings.IndexFunc(name, func(c rune) bool { return !plain(c) && !strings.ContainsRune(".-_", c) })
	if name == "" || len(name) > MaxName || odd >= 0 || strings.ContainsAny(name[:1], ".-_") {
		return fmt.Errorf("%w: %.*q must be 1 to %d letters, digits, dots, - and _, and begin with a letter or a digit",
			ErrName, MaxName+1, name, MaxName)
	}
	return nil
}

func (c Checkpoint) text() string {
	return string(log.Checkpoint{Origin: c.Origin, Size: c.Size, Hash: c.Root[:]}.Marshal())
}

// open verifies one signature of a note, and reads the checkpoint.
func open(signed []byte, origin string, by verifier) (Checkpoint, error) {
	if len(signed) > MaxCheckpoint {
		return Checkpoint{}, fmt.Errorf("%w: %d bytes, at most %d", ErrCheckpoint, len(signed), MaxCheckpoint)
	}
	n, err := note.Open(signed, note.VerifierList(by))
	var unverified *note.UnverifiedNoteError
	var invalid *note.InvalidSignatureError
	switch {
	case errors.As(err, &unverified), errors.As(err, &invalid):
		return Checkpoint{}, fmt.Errorf("%w: %w", ErrUnsigned, err)
	case err != nil:
		return Checkpoint{}, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	c, err := read(n.Text)
	if err == nil && c.Origin != origin {
		err = fmt.Errorf("%w: it is of %q, expected %q", ErrCheckpoint, c.Origin, origin)
	}
	if err != nil {
		return Checkpoint{}, err
	}
	return c, nil
}

// parse reads a checkpoint with all its signatures and verifies none.
func parse(signed []byte) (*note.Note, error) {
	if len(signed) > MaxCheckpoint {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrCheckpoint, len(signed), MaxCheckpoint)
	}
	_, err := note.Open(signed, note.VerifierList())
	var unverified *note.UnverifiedNoteError
	if !errors.As(err, &unverified) {
		return nil, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	if _, err := read(unverified.Note.Text); err != nil {
		return nil, err
	}
	return unverified.Note, nil
}

// read reads the text of a checkpoint, and accepts only the one that text makes.
func read(text string) (Checkpoint, error) {
	var found log.Checkpoint
	if _, err := found.Unmarshal([]byte(text)); err != nil {
		return Checkpoint{}, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	if len(found.Hash) != HashSize {
		return Checkpoint{}, fmt.Errorf("%w: a root of %d bytes", ErrCheckpoint, len(found.Hash))
	}
	c := Checkpoint{found.Origin, found.Size, Hash(found.Hash)}
	if c.text() != text {
		return Checkpoint{}, fmt.Errorf("%w: not written as a checkpoint is", ErrCheckpoint)
	}
	return c, nil
}

// The algorithms of C2SP signed-note that are used here, by the byte that is before the key in its id.
const (
	algorithmEd25519     = 1
	algorithmCosignature = 4
)

// timeSize is the length of a cosignature's time: whole seconds since 1970, big endian.
const timeSize = 8

// cosigned is the text that a witness signs.
func cosigned(seconds uint64, text []byte) []byte {
	return append(fmt.Appendf(nil, "cosignature/v1\ntime %d\n", seconds), text...)
}

// keyID is the start of a hash that a note names a key by.
func keyID(name string, algorithm byte, key []byte) uint32 {
	h := sha256.Sum256(bytes.Join([][]byte{[]byte(name), {'\n', algorithm}, key}, nil))
	return binary.BigEndian.Uint32(h[:])
}

// signer is a note.Signer.
type signer struct {
	name string
	id   uint32
	sign func(text []byte) ([]byte, error)
}

func (s signer) Name() string                     { return s.name }
func (s signer) KeyHash() uint32                  { return s.id }
func (s signer) Sign(text []byte) ([]byte, error) { return s.sign(text) }

// verifier is a note.Verifier.
type verifier struct {
	name   string
	id     uint32
	verify func(text, signature []byte) bool
}

func (v verifier) Name() string                       { return v.name }
func (v verifier) KeyHash() uint32                    { return v.id }
func (v verifier) Verify(text, signature []byte) bool { return v.verify(text, signature) }

// roleKey verifies a role's signatures.
func roleKey(origin string, key []byte) verifier {
	return verifier{origin, keyID(origin, algorithmEd25519, key),
		func(text, signature []byte) bool { return seal.VerifyText(text, key, signature) == nil }}
}
