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
	switch m := m.(type) {
	case *rifflev1.Announcement:
		return Sign(announcementOf(m), by)
	case *rifflev1.KeySet:
		return Sign(keySetOf(m), by)
	case *rifflev1.Manifest:
		return Sign(manifestOf(m), by)
	case *rifflev1.Counts:
		return Sign(countsOf(m), by)
	case *rifflev1.Credential:
		return Sign(credentialOf(m), by)
	case *rifflev1.Accepted:
		return Sign(acceptedOf(m), by)
	case *rifflev1.Summed:
		return Sign(summedOf(m), by)
	case *rifflev1.Configuration:
		return Sign(configurationOf(m), by)
	case *rifflev1.Learned:
		return Sign(learnedOf(m), by)
	case *rifflev1.Pool:
		return Sign(poolOf(m), by)
	case *rifflev1.Draw:
		return Sign(drawOf(m), by)
	case *rifflev1.EnrolRequest:
		return Sign(enrolRequestOf(m), by)
	case *rifflev1.EnrolReply:
		return Sign(enrolReplyOf(m), by)
	}
	panic(fmt.Sprintf("%T is no statement", m))
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
	return openedMessage[Credential](signed, from)
}

func openedMessage[
	T plan.Announcement | KeySet | Manifest | Counts | Credential | Accepted | Summed | Configuration | Learned | Pool |
		Draw,
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
func Message[T Statement](statement *T) proto.Message { return formatOf[T]().message(statement) }

// Digest is the digest that Sign returns with a statement.
func Digest[T Statement](statement *T) ([32]byte, error) {
	body, err := marshal(Message(statement))
	return seal.Digest(formatOf[T]().kind, body), err
}

// Keep sets how many credentials are kept, and Kept counts them.
func (k *Credentials) Keep(most int) { k.most = most }
func (k *Credentials) Kept() int     { return len(k.known) }
