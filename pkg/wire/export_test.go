package wire

import (
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"google.golang.org/protobuf/proto"
)

// SignMessage is Sign for a message, so that tests can offer what no statement converts to.
func SignMessage(m proto.Message, by *seal.Identity) ([]byte, [32]byte, error) {
	s, err := specOf(m)
	if err != nil {
		return nil, [32]byte{}, err
	}
	return sign(m, s, by)
}

// OpenMessage is Open for a statement of the kind, converted back to its message; nil with an error.
func OpenMessage(kind seal.Kind, signed []byte, from Party) (proto.Message, [32]byte, error) {
	switch kind {
	case seal.Announcement:
		return opened[plan.Announcement](signed, from)
	case seal.KeySet:
		return opened[KeySet](signed, from)
	case seal.Manifest:
		return opened[Manifest](signed, from)
	case seal.Counts:
		return opened[Counts](signed, from)
	}
	return opened[Credential](signed, from)
}

func opened[T plan.Announcement | KeySet | Manifest | Counts | Credential](signed []byte, from Party) (proto.Message, [32]byte, error) {
	statement, digest, err := Open[T](signed, from)
	if err != nil {
		if statement != nil {
			panic("a statement is returned with an error")
		}
		return nil, digest, err
	}
	m, err := messageOf(statement)
	return m, digest, err
}

// Message is the message that a statement is signed as.
func Message(statement any) (proto.Message, error) { return messageOf(statement) }
