package wire

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"google.golang.org/protobuf/proto"
)

// Party is whom a statement must come from.
type Party struct {
	Deployment string
	Key        []byte // Ed25519 public key, 32 bytes
}

// Sign checks a statement and signs it. It returns the bytes of Signed and the statement's digest. It refuses to sign what Open
// would refuse.
func Sign[T Statement](statement *T, by *seal.Identity) (signed []byte, digest [32]byte, err error) {
	m, s, err := described(statement)
	if err != nil {
		return nil, digest, err
	}
	return sign(m, s, by)
}

// Digest is the digest of a statement: what Sign and Open return with it.
func Digest[T Statement](statement *T) ([32]byte, error) {
	m, s, err := described(statement)
	if err != nil {
		return [32]byte{}, err
	}
	body, err := marshal(m)
	if err != nil {
		return [32]byte{}, named(s.kind.String(), err)
	}
	return seal.Digest(s.kind, body), nil
}

// described is a statement's message and spec.
func described(statement any) (proto.Message, spec, error) {
	s, err := specOf(emptyMessage(statement))
	if err != nil {
		return nil, s, err
	}
	m, err := messageOf(statement)
	if err != nil {
		return nil, s, named(s.kind.String(), err)
	}
	s, err = specOf(m)
	return m, s, err
}

// sign checks a message and signs it.
func sign(m proto.Message, s spec, by *seal.Identity) (signed []byte, digest [32]byte, err error) {
	name := s.kind.String()
	if err := named(name, s.check()); err != nil {
		return nil, digest, err
	}
	body, err := marshal(m)
	if err != nil {
		return nil, digest, named(name, err)
	}
	signed, err = marshal(&rifflev1.Signed{Body: body, Key: by.Public(), Signature: seal.Sign(s.kind, body, by)})
	if err != nil {
		return nil, digest, named(name, err)
	}
	if len(signed) > s.limit {
		return nil, digest, named(name, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(signed), s.limit))
	}
	return signed, seal.Digest(s.kind, body), nil
}

// Open verifies and checks a signed statement and returns it with its digest:
//
//	manifest, digest, err := wire.Open[wire.Manifest](b, shuffler)
//
// Enrolment has openers of its own: OpenEnrolRequest and OpenEnrolReply.
func Open[T plan.Announcement | KeySet | Manifest | Counts | Credential](signed []byte, from Party) (*T, [32]byte, error) {
	if len(from.Key) != keySize { // an absent key must not stand for any key
		return nil, [32]byte{}, ErrSigner
	}
	m := emptyMessage(new(T))
	digest, err := open(signed, from.Key, m)
	if err == nil {
		if name := m.(interface{ GetDeployment() string }).GetDeployment(); name != from.Deployment {
			err = foreign{fmt.Errorf("%w: %q, expected %q", ErrDeployment, name, from.Deployment)}
		}
	}
	if err != nil {
		return nil, [32]byte{}, err
	}
	return statementOf(m).(*T), digest, nil
}

// OpenAnnouncement is Open for an announcement that is stored under a round of an epoch. The broker lets several lie there, and junk
// too, written with the analyzer's broker credential. What counts is the first that the analyzer signed for this place; anything
// else is an ErrForeign, to be passed over.
func OpenAnnouncement(signed []byte, epoch uint64, round uint32, analyzer Party) (*plan.Announcement, [32]byte, error) {
	a, digest, err := Open[plan.Announcement](signed, analyzer)
	if err == nil && (a.Epoch != epoch || a.Round != round) {
		err = foreign{fmt.Errorf("%w: it is about round %d of epoch %d and lies under round %d of epoch %d",
			ErrPlace, a.Round, a.Epoch, round, epoch)}
	}
	if err != nil {
		return nil, [32]byte{}, err
	}
	return a, digest, nil
}

// open verifies the signature of key, or of whatever key is named inside where key is nil, and decodes and checks the statement.
func open(signed, key []byte, statement proto.Message) (digest [32]byte, err error) {
	s, err := specOf(statement)
	if err != nil {
		return digest, err
	}
	name := s.kind.String()
	outer, err := openSigned(signed, s.limit)
	if err != nil {
		return digest, foreign{named(name, err)}
	}
	if key != nil && !bytes.Equal(outer.Key, key) {
		return digest, foreign{named(name, ErrSigner)}
	}
	if err := seal.Verify(s.kind, outer.Body, outer.Key, outer.Signature); err != nil {
		return digest, foreign{named(name, err)}
	}
	if err := unmarshal(outer.Body, statement); err != nil {
		return digest, named(name, err)
	}
	if err := s.check(); err != nil {
		return digest, named(name, err)
	}
	return seal.Digest(s.kind, outer.Body), nil
}

// openSigned decodes the outer message and checks its lengths, not its signature.
func openSigned(signed []byte, limit int) (*rifflev1.Signed, error) {
	if len(signed) > limit {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(signed), limit)
	}
	outer := new(rifflev1.Signed)
	if err := unmarshal(signed, outer); err != nil {
		return nil, err
	}
	if len(outer.Key) != keySize || len(outer.Signature) != seal.SignatureSize {
		return nil, fmt.Errorf("%w: key of %d bytes and signature of %d", ErrMalformed, len(outer.Key), len(outer.Signature))
	}
	return outer, nil
}

// spec is what Sign and open need to know of a type of statement.
type spec struct {
	kind  seal.Kind
	limit int
	check func() error // checks the statement it was made for
}

func specOf(statement proto.Message) (spec, error) {
	switch m := statement.(type) {
	case *rifflev1.Announcement:
		return spec{seal.Announcement, MaxStatement, func() error { return checkAnnouncement(m) }}, nil
	case *rifflev1.KeySet:
		return spec{seal.KeySet, MaxEnrolment, func() error { return checkKeySet(m) }}, nil
	case *rifflev1.Manifest:
		return spec{seal.Manifest, MaxEnrolment, func() error { return checkManifest(m) }}, nil
	case *rifflev1.Counts:
		return spec{seal.Counts, MaxStatement, func() error { return checkCounts(m) }}, nil
	case *rifflev1.Credential:
		return spec{seal.Credential, MaxEnrolment, func() error { return checkCredential(m) }}, nil
	case *rifflev1.EnrolRequest:
		return spec{seal.EnrolRequest, MaxEnrolment, func() error { return checkEnrolRequest(m) }}, nil
	case *rifflev1.EnrolReply:
		return spec{seal.EnrolReply, MaxEnrolment, func() error { return checkEnrolReply(m) }}, nil
	}
	return spec{}, fmt.Errorf("wire: %T is no statement", statement)
}

// marshal is the one encoding of a message.
func marshal(m proto.Message) ([]byte, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return b, nil
}

// unmarshal accepts the one encoding of a message: unknown fields are dropped at decoding, so that bytes which hold any, or hold anything
// not as marshal writes it, differ from what marshal makes of the result.
func unmarshal(b []byte, into proto.Message) error {
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, into); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	again, err := marshal(into)
	if err != nil {
		return err
	}
	if !bytes.Equal(again, b) {
		return fmt.Errorf("%w: unknown fields or not the canonical encoding", ErrMalformed)
	}
	return nil
}

// sum is plain SHA-256, for bytes that are not statements.
func sum(b []byte) [32]byte { return sha256.Sum256(b) }
