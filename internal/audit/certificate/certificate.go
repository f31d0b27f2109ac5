// Package certificate is a file that shows what one epoch of a deployment did, to a person who has nothing else: no
// broker, no logs, no network. It holds the epoch's signed statements of both servers, and shows of each that it is in
// its server's transparency log. Everything in it that counts is signed by a server. Beside the statements there is a
// summary that people and programs can read without decoding them; it is believed only as far as it is what the
// statements say.
//
// # Format
//
// A certificate is one JSON object (File), indented by two spaces, in the order of the fields here, with a newline at
// its end: each has one form. Bytes are base64 with padding, keys base64 without.
//
//	format      "riffle-certificate-1"
//	keys        the deployment's name and public keys, as in its bundle
//	analyzer    the checkpoint of the analyzer's log, and of its statements: configuration, then for each round
//	            announcement, draw (of panels), accepted (in the channel shares), counts, learned
//	shuffler    the same of the shuffler: for each round pool (of panels), summed (in the
//	            channel shares) and manifest
//	summary     Summary
//
// A statement is given with its index in the log, from 0, the kind that it was appended under, its bytes, and an
// inclusion proof (RFC 6962) to the checkpoint. Apart from the configuration, which is at the log's begin, the
// indices of a server's statements follow each other: the server signed nothing else in between.
package certificate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Format names the form of the file.
const Format = "riffle-certificate-1"

const (
	// MaxSize bounds the bytes of a certificate: far above that of an epoch with as many rounds as a plan can have and
	// statements of usual size.
	MaxSize = 256 << 20
	// maxStatements bounds the statements of one server: a configuration, and four for each round that a plan can have.
	maxStatements = 1 + 4*wire.MaxRounds
	// maxProof bounds the hashes of an inclusion proof: one for each level of the largest tree.
	maxProof = 64
)

var (
	// ErrForm means bytes that are no certificate. They prove nothing, for or against anybody.
	ErrForm = errors.New("this is not a certificate")
	// ErrRefused means a certificate that does not show what it says. The text tells why.
	ErrRefused = errors.New("the certificate is refused")
	// ErrUnfinished means statements of an epoch whose last round is not over.
	ErrUnfinished = errors.New("the epoch is not over")
)

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrRefused, fmt.Errorf(format, args...))
}

// File is a certificate.
type File struct {
	Format   string         `json:"format"`
	Keys     keyring.Bundle `json:"keys"`
	Analyzer Log            `json:"analyzer"`
	Shuffler Log            `json:"shuffler"`
	Summary  Summary        `json:"summary"`
}

// Log is what a certificate shows of one server's log.
type Log struct {
	Checkpoint string      `json:"checkpoint"` // a signed note
	Statements []Statement `json:"statements"` // in the order of the log
}

// Statement is one leaf, shown to be in the log.
type Statement struct {
	Index  uint64   `json:"index"`
	Kind   string   `json:"kind"`
	Signed []byte   `json:"signed"`
	Proof  [][]byte `json:"proof"`
}

// Make is a certificate of an epoch's statements. It says what Verify would: ErrRefused, or ErrUnfinished.
func Make(keys keyring.Bundle, analyzer, shuffler Log) ([]byte, error) {
	f := File{Format: Format, Keys: keys, Analyzer: analyzer, Shuffler: shuffler}
	x, err := examine(&f, keys)
	if err != nil {
		return nil, err
	}
	f.Summary = x.summary
	return f.encode()
}

// Decode reads a certificate and believes nothing in it. The error wraps ErrForm.
func Decode(b []byte) (*File, error) {
	if len(b) > MaxSize {
		return nil, fmt.Errorf("%w: it has %d bytes, at most %d are read", ErrForm, len(b), MaxSize)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	f := new(File)
	if err := d.Decode(f); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForm, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: something follows the object", ErrForm)
	}
	if f.Format != Format {
		return nil, fmt.Errorf("%w: its format is %q, this program reads %q", ErrForm, f.Format, Format)
	}
	for _, l := range []Log{f.Analyzer, f.Shuffler} {
		if n := len(l.Statements); n > maxStatements {
			return nil, fmt.Errorf("%w: %d statements of one server, at most %d are read", ErrForm, n, maxStatements)
		}
		for _, s := range l.Statements {
			odd := slices.ContainsFunc(s.Proof, func(h []byte) bool { return len(h) != transparency.HashSize })
			if odd || len(s.Proof) > maxProof {
				return nil, fmt.Errorf("%w: the proof of entry %d is no list of at most %d hashes", ErrForm, s.Index,
					maxProof)
			}
		}
	}
	if again, err := f.encode(); err != nil || !bytes.Equal(again, b) {
		return nil, fmt.Errorf("%w: it is not written as a certificate is, in its one form", ErrForm)
	}
	return f, nil
}

func (f *File) encode() ([]byte, error) {
	b, err := json.MarshalIndent(f, "", "  ")
	return append(b, '\n'), err
}

// log is what the certificate shows of a server's log.
func (f *File) log(role bus.Role) Log {
	if role == bus.Shuffler {
		return f.Shuffler
	}
	return f.Analyzer
}
