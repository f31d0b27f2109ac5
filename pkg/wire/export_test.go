package wire

import (
	"fmt"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"google.golang.org/protobuf/proto"
)

// SignMessage is Sign for the statement that a message converts to.
func SignMessage(m proto.Message, by *seal.Identity) ([]byte, [32]byte, error) {
	switch m.(type) {
	case *rifflev1.Announcement:
		return signMessage[plan.Announcement](m, by)
	case *rifflev1.KeySet:
		return signMessage[KeySet](m, by)
	case *rifflev1.Manifest:
		return signMessage[Manifest](m, by)
	case *rifflev1.Counts:
		return signMessage[Counts](m, by)
	case *rifflev1.Credential:
		return signMessage[Credential](m, by)
	case *rifflev1.IssuerCertificate:
		return signMessage[IssuerCertificate](m, by)
	case *rifflev1.Issued:
		return signMessage[Issued](m, by)
	case *rifflev1.Accepted:
		return signMessage[Accepted](m, by)
	case *rifflev1.Summed:
		return signMessage[Summed](m, by)
	case *rifflev1.Configuration:
		return signMessage[Configuration](m, by)
	case *rifflev1.Learned:
		return signMessage[Learned](m, by)
	case *rifflev1.Pool:
		return signMessage[Pool](m, by)
	case *rifflev1.Draw:
		return signMessage[Draw](m, by)
	case *rifflev1.EnrolRequest:
		return signMessage[EnrolRequest](m, by)
	case *rifflev1.EnrolReply:
		return signMessage[EnrolReply](m, by)
	}
	panic(fmt.Sprintf("%T is no statement", m))
}

func signMessage[T Statement](m proto.Message, by *seal.Identity) ([]byte, [32]byte, error) {
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, [32]byte{}, err
	}
	statement, err := Read[T](body)
	if err != nil {
		return nil, [32]byte{}, err
	}
	return Sign(statement, by)
}

// Read is what a body says, unchecked.
func Read[T Statement](body []byte) (*T, error) {
	c, statement := coder{b: body, reads: true}, new(T)
	formatOf[T]().fields(&c, statement)
	return statement, c.read()
}

// CheckSealed refuses what is neither empty nor a Signed.
func CheckSealed(b []byte) error {
	_, err := unmarshal(sealedFields, b)
	return err
}

// Written is the body of a statement, unchecked.
func Written[T Statement](statement *T) ([]byte, error) {
	return marshal(formatOf[T]().fields, statement)
}

// OpenMessage is Open for a statement of the kind, converted back to its message; nil with an error.
func OpenMessage(kind seal.Kind, signed []byte, from Party) (proto.Message, [32]byte, error) {
	switch kind {
	case seal.Announcement:
		return openedMessage[plan.Announcement](signed, from)
	case seal.KeySet:
		return openedMessage[KeySet](signed, from)
	case seal.Manifest:
		return openedMessage[Manifest](signed, from)
	case seal.Counts:
		return openedMessage[Counts](signed, from)
	case seal.Accepted:
		return openedMessage[Accepted](signed, from)
	case seal.Summed:
		return openedMessage[Summed](signed, from)
	case seal.Configuration:
		return openedMessage[Configuration](signed, from)
	case seal.Learned:
		return openedMessage[Learned](signed, from)
	case seal.Pool:
		return openedMessage[Pool](signed, from)
	case seal.Draw:
		return openedMessage[Draw](signed, from)
	}
	switch kind {
	case seal.IssuerCertificate:
		return openedMessage[IssuerCertificate](signed, from)
	case seal.Issued:
		return openedMessage[Issued](signed, from)
	}
	c, err := ReadCredential(signed)
	if err != nil {
		return nil, [32]byte{}, err
	}
	if _, err := OpenCredential(signed, from); err != nil {
		return nil, [32]byte{}, err
	}
	digest, err := Digest(c)
	return Message(c), digest, err
}

func openedMessage[
	T plan.Announcement | KeySet | Manifest | Counts | IssuerCertificate | Accepted | Summed | Configuration | Learned |
		Pool | Draw | Issued,
](signed []byte, from Party) (proto.Message, [32]byte, error) {
	statement, digest, err := Open[T](signed, from)
	if err != nil {
		if statement != nil {
			panic("a statement is returned with an error")
		}
		return nil, digest, err
	}
	return Message(statement), digest, nil
}

// Message is the message that a statement is signed as.
func Message[T Statement](statement *T) proto.Message {
	m := map[seal.Kind]proto.Message{
		seal.Announcement: new(rifflev1.Announcement), seal.KeySet: new(rifflev1.KeySet),
		seal.Manifest: new(rifflev1.Manifest), seal.Counts: new(rifflev1.Counts),
		seal.Credential: new(rifflev1.Credential), seal.IssuerCertificate: new(rifflev1.IssuerCertificate),
		seal.Issued:   new(rifflev1.Issued),
		seal.Accepted: new(rifflev1.Accepted), seal.Summed: new(rifflev1.Summed),
		seal.Configuration: new(rifflev1.Configuration), seal.Learned: new(rifflev1.Learned),
		seal.Pool: new(rifflev1.Pool), seal.Draw: new(rifflev1.Draw), seal.EnrolRequest: new(rifflev1.EnrolRequest),
		seal.EnrolReply: new(rifflev1.EnrolReply),
	}[formatOf[T]().kind]
	body, err := Written(statement)
	if err == nil {
		err = proto.Unmarshal(body, m)
	}
	if err != nil {
		panic(err)
	}
	return m
}

// Digest is the digest that Sign returns with a statement.
func Digest[T Statement](statement *T) ([32]byte, error) {
	body, err := Written(statement)
	return seal.Digest(formatOf[T]().kind, body), err
}

// Keep sets how many credentials are kept, and Kept counts them.
func (k *Credentials) Keep(most int) { k.most = most }
func (k *Credentials) Kept() int     { return len(k.known) }
