package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/pkg/seal"
)

// Requests for enrolment travel sealed to the shuffler, and their replies under a secret of the request, each padded to
// one size: the broker sees neither which devices ask nor how many, nor for what.

const (
	// lengthSize is the bytes before what is padded, which say how long it is.
	lengthSize = 2
	// requestRoom is what a request is padded to, its length included. The largest legal one, for 64 devices of a
	// deployment with the longest name, has 1050 bytes (TestTheLargestRequestAndReplyFit).
	requestRoom = 1152
	// replyRoom is the same of a reply. The largest legal one answers 64 devices in the channel of shares: 3463 bytes.
	replyRoom = 3584
)

const (
	// SealedRequestSize is the length in bytes of every sealed request.
	SealedRequestSize = (2 + seal.HPKEKeySize) + (2 + seal.EncapsulatedSize) + 3 + requestRoom + seal.CiphertextOverhead
	// SealedReplySize is the length in bytes of every sealed reply.
	SealedReplySize = replyRoom + seal.ReplyOverhead
)

// ErrUnopened marks every error of OpenReply for a signed answer that says that the shuffler could not open the
// request: it says nothing of a device. A broker alone can bring it about, by keeping the shuffler's later keys from
// the host.
var ErrUnopened = errors.New("the shuffler could not open the request")

// SealedRequest is a signed request for enrolment on its way. It is safe for concurrent use.
type SealedRequest struct {
	Signed []byte // as the host signed it: what the reply names
	Sealed []byte // SealedRequestSize bytes, what leaves the host
	reply  *seal.ReplyKey
}

// SealRequest seals the bytes of a signed request to the shuffler's HPKE key, anew at every call. Errors: seal.ErrKey,
// and ErrTooLarge for more than a legal request has.
func SealRequest(signed, shuffler []byte, deployment string) (*SealedRequest, error) {
	plain, err := pad(signed, requestRoom)
	if err != nil {
		return nil, named("enrol-request", err)
	}
	e, reply, err := seal.SealRequest(shuffler, deployment, plain)
	if err != nil {
		return nil, named("enrol-request", err)
	}
	sealed, err := marshal(envelopeFields, &e)
	return &SealedRequest{signed, sealed, reply}, err
}

// OpenReply returns the signed bytes of the reply to this request, for OpenEnrolReply. shuffler is the Ed25519 key that
// an answer to a request that was not opened must be signed with: such an answer is ErrUnopened. Other errors are about
// bytes that are no answer to this request.
func (r *SealedRequest) OpenReply(reply, shuffler []byte) (signed []byte, err error) {
	if len(reply) == SealedReplySize {
		plain, err := r.reply.Open(reply)
		if err == nil {
			signed, err = unpad(plain, replyRoom)
		}
		return signed, named("enrol-reply", err)
	}
	clear, err := OpenEnrolReply(reply, shuffler, sum(r.Sealed))
	if err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w: %s", ErrUnopened, clear.Refusal)
}

// Answer is what the reply to this request says: OpenReply, and OpenEnrolReply of what it returns.
func (r *SealedRequest) Answer(reply, shuffler []byte) (*EnrolReply, error) {
	signed, err := r.OpenReply(reply, shuffler)
	if err != nil {
		return nil, err
	}
	return OpenEnrolReply(signed, shuffler, sum(r.Signed))
}

// OpenedRequest is a request that was opened: its signed bytes, which nobody has verified yet, and how it is answered.
type OpenedRequest struct {
	Signed []byte
	reply  *seal.ReplyKey
}

// OpenSealedRequest opens a request as it came. Where the error is of what was inside, the request is not nil: the
// refusal can be sealed.
func OpenSealedRequest(b []byte, keys *seal.RequestOpener) (*OpenedRequest, error) {
	e, err := unmarshal(envelopeFields, b)
	if err == nil && (len(b) != SealedRequestSize || len(e.Key) != seal.HPKEKeySize ||
		len(e.Encapsulated) != seal.EncapsulatedSize) {
		err = fmt.Errorf("%w: not the layout of a sealed request", ErrMalformed)
	}
	if err != nil {
		return nil, named("enrol-request", err)
	}
	plain, reply, err := keys.Open(*e)
	if err != nil {
		return nil, named("enrol-request", err)
	}
	signed, err := unpad(plain, requestRoom)
	return &OpenedRequest{signed, reply}, named("enrol-request", err)
}

// SealReply seals the bytes of a signed reply, anew at every call. It returns ErrTooLarge for more than a legal reply
// has.
func (o *OpenedRequest) SealReply(signed []byte) ([]byte, error) {
	plain, err := pad(signed, replyRoom)
	if err != nil {
		return nil, named("enrol-reply", err)
	}
	return o.reply.Seal(plain), nil
}

// OpenReply returns the signed bytes of a reply that was sealed for this request.
func (o *OpenedRequest) OpenReply(reply []byte) ([]byte, error) {
	plain, err := o.reply.Open(reply)
	if err != nil {
		return nil, named("enrol-reply", err)
	}
	return unpad(plain, replyRoom)
}

// pad puts a length before the content and zeros behind it.
func pad(content []byte, room int) ([]byte, error) {
	if len(content) > room-lengthSize {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(content), room-lengthSize)
	}
	padded := make([]byte, room)
	binary.BigEndian.PutUint16(padded, uint16(len(content)))
	copy(padded[lengthSize:], content)
	return padded, nil
}

// unpad takes only what pad makes.
func unpad(padded []byte, room int) ([]byte, error) {
	if len(padded) != room {
		return nil, fmt.Errorf("%w: %d bytes, must have %d", ErrMalformed, len(padded), room)
	}
	n := int(binary.BigEndian.Uint16(padded))
	if n > room-lengthSize {
		return nil, fmt.Errorf("%w: a length of %d in %d bytes", ErrMalformed, n, room)
	}
	content, rest := padded[lengthSize:lengthSize+n], padded[lengthSize+n:]
	for _, b := range rest {
		if b != 0 {
			return nil, fmt.Errorf("%w: trailing data", ErrMalformed)
		}
	}
	return content, nil
}
