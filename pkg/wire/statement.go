package wire

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// Party names the signer that a statement must have and the deployment that it must be about.
type Party struct {
	Deployment string
	Key        []byte // Ed25519 public key, 32 bytes
	Hosts      *Hosts // of the registrar: the hosts whose keys were replaced or withdrawn; nil: none
}

// Sign checks a statement and signs it. It returns the bytes of Signed and the statement's digest. It refuses every
// statement that Open would refuse or would return changed: the error is a *FieldError or wraps ErrTooLarge.
func Sign[T Statement](statement *T, by seal.Signer) (signed []byte, digest [32]byte, err error) {
	f := formatOf[T]()
	signed, digest, err = f.sign(statement, by)
	return signed, digest, named(f.kind.String(), err)
}

func (f format[T]) sign(statement *T, by seal.Signer) (signed []byte, digest [32]byte, err error) {
	if err := f.check(statement); err != nil {
		return nil, digest, err
	}
	body, err := marshal(f.fields, statement)
	if err != nil {
		return nil, digest, err
	}
	signature, err := seal.Sign(f.kind, body, by)
	if err != nil {
		return nil, digest, err
	}
	signed, err = marshal(sealedFields, &sealed{body, by.Public(), signature})
	if err != nil {
		return nil, digest, err
	}
	if len(signed) > f.limit {
		return nil, digest, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(signed), f.limit)
	}
	return signed, seal.Digest(f.kind, body), nil
}

// Open verifies and checks a signed statement and returns it with its digest:
//
//	manifest, digest, err := wire.Open[wire.Manifest](b, shuffler)
//
// The bytes that it accepts are those that Sign makes of the statement that it returns. Enrolment has openers of its
// own: OpenCredential, OpenEnrolRequest and OpenEnrolReply.
func Open[T plan.Announcement | KeySet | Manifest | Counts | IssuerCertificate | Accepted | Summed | Configuration |
	Learned | Pool | Draw | Issued](signed []byte, from Party) (*T, [32]byte, error) {
	if len(from.Key) != keySize { // an absent key must not stand for any key
		return nil, [32]byte{}, ErrSigner
	}
	o, err := open[T](signed, from.Key)
	if err == nil && o.deployment != from.Deployment {
		err = foreign{fmt.Errorf("%w: %q, expected %q", ErrDeployment, o.deployment, from.Deployment)}
	}
	if err != nil {
		return nil, [32]byte{}, err
	}
	return o.statement, o.digest, nil
}

// OpenAnnouncement is Open for an announcement that is stored under a round of an epoch. Anyone with the analyzer's
// broker credential can store several announcements there, and other bytes too. The first one that the analyzer signed
// for this round counts. Every other one is an ErrForeign, which the caller skips.
func OpenAnnouncement(
	signed []byte, epoch uint64, round uint32, analyzer Party,
) (*plan.Announcement, [32]byte, error) {
	a, digest, err := Open[plan.Announcement](signed, analyzer)
	if err == nil && (a.Epoch != epoch || a.Round != round) {
		err = foreign{fmt.Errorf("%w: it is about round %d of epoch %d and is stored under round %d of epoch %d",
			ErrPlace, a.Round, a.Epoch, round, epoch)}
	}
	if err != nil {
		return nil, [32]byte{}, err
	}
	return a, digest, nil
}

// opened is a statement whose signature and ranges have been checked.
type opened[T any] struct {
	statement  *T
	deployment string // that the statement names; empty for a type that names none
	signer     []byte // Ed25519 public key
	digest     [32]byte
}

// open verifies the signature of key, or of the key that is named inside where key is nil, and decodes and checks the
// statement.
func open[T Statement](signed, key []byte) (o opened[T], err error) {
	f := formatOf[T]()
	name := f.kind.String()
	outer, err := openSigned(signed, f.limit)
	if err == nil && key != nil && !bytes.Equal(outer.Key, key) {
		err = ErrSigner
	}
	if err == nil {
		err = seal.Verify(f.kind, outer.Body, outer.Key, outer.Signature)
	}
	if err != nil {
		return o, foreign{named(name, err)}
	}
	if o, err = f.open(outer.Body); err != nil {
		return opened[T]{}, named(name, err)
	}
	o.signer, o.digest = bytes.Clone(outer.Key), seal.Digest(f.kind, outer.Body)
	return o, nil
}

// open decodes and checks the body of a statement. It accepts only the bytes that sign makes of the result, so that
// nothing in them is lost: no unknown field, no unknown enum value, no empty message in place of an absent one.
func (f format[T]) open(body []byte) (o opened[T], err error) {
	c, statement := coder{b: body, reads: true}, new(T)
	f.fields(&c, statement)
	if err := c.read(); err != nil {
		return o, err
	}
	if err := f.check(statement); err != nil {
		return o, err
	}
	again, err := marshal(f.fields, statement)
	if err == nil && !bytes.Equal(again, body) {
		err = fmt.Errorf("%w: not what is signed of this statement", ErrMalformed)
	}
	return opened[T]{statement: statement, deployment: c.deployment}, err
}

// openSigned decodes the outer message, whose memory the result shares. It checks the lengths in it and not its
// signature.
func openSigned(signed []byte, limit int) (*sealed, error) {
	if len(signed) > limit {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(signed), limit)
	}
	outer, err := unmarshal(sealedFields, signed)
	if err != nil {
		return nil, err
	}
	if len(outer.Key) != keySize || len(outer.Signature) != seal.SignatureSize {
		return nil, fmt.Errorf("%w: key of %d bytes and signature of %d",
			ErrMalformed, len(outer.Key), len(outer.Signature))
	}
	return outer, nil
}

// format is what Sign and Open need to know of a type of statement.
type format[T any] struct {
	kind   seal.Kind
	limit  int              // largest number of bytes of Signed
	check  func(*T) error   // every range and relation; what passes has a message that carries all of it
	fields func(*coder, *T) // of its message
}

// formats has one format for each type of statement.
var formats = []any{
	formatBy(seal.Announcement, MaxStatement, checkAnnouncement, announcementFields),
	formatBy(seal.KeySet, MaxEnrolment, checkKeySet, keySetFields),
	formatBy(seal.Manifest, MaxEnrolment, checkManifest, manifestFields),
	formatBy(seal.Counts, MaxStatement, checkCounts, countsFields),
	formatBy(seal.Credential, MaxEnrolment, checkCredential, credentialFields),
	certificates,
	formatBy(seal.Issued, MaxEnrolment, checkIssued, issuedFields),
	formatBy(seal.Accepted, MaxEnrolment, checkAccepted, acceptedFields),
	formatBy(seal.Summed, MaxEnrolment, checkSummed, summedFields),
	formatBy(seal.Configuration, MaxStatement, checkConfiguration, configurationFields),
	formatBy(seal.Learned, MaxStatement, checkLearned, learnedFields),
	formatBy(seal.Pool, MaxContribution, checkPool, poolFields),
	formatBy(seal.Draw, MaxContribution, checkDraw, drawFields),
	formatBy(seal.EnrolRequest, MaxEnrolment, checkEnrolRequest, enrolRequestFields),
	formatBy(seal.EnrolReply, MaxEnrolment, checkEnrolReply, enrolReplyFields),
}

// certificates are checked inside credentials, too.
var certificates = formatBy(seal.IssuerCertificate, MaxEnrolment, checkIssuerCertificate, issuerCertificateFields)

func formatOf[T Statement]() (f format[T]) {
	for _, candidate := range formats {
		if found, ok := candidate.(format[T]); ok {
			f = found
		}
	}
	return f
}

func formatBy[T any](kind seal.Kind, limit int, check func(*T) error, fields func(*coder, *T)) format[T] {
	return format[T]{kind, limit, check, fields}
}

// sum is plain SHA-256, for bytes that are not statements.
func sum(b []byte) [32]byte { return sha256.Sum256(b) }
