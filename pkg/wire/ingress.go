package wire

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// What only an ingress and its clients exchange: tickets, and the announcements of a chain one after another.

// Ticket lets the reports of one slot pass an ingress, one in each round. The shuffler makes it and the ingress checks
// it; to the device, which has it from the sealed reply to its enrolment, it is random bytes.
type Ticket [TicketSize]byte

// NewTicket is the ticket of a slot, under the key that shuffler and ingress share: the first bytes of HMAC-SHA256 over
// "riffle ticket", the deployment's name, the epoch (8 bytes) and the slot (4), big endian.
func NewTicket(key [32]byte, deployment string, epoch uint64, slot uint32) Ticket {
	mac := hmac.New(sha256.New, key[:])
	mac.Write([]byte("riffle ticket" + deployment))
	mac.Write(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, epoch), slot))
	return Ticket(mac.Sum(nil)[:TicketSize])
}

// TicketHeader is the value of the header Riffle-Ticket of a report of this slot: <base64url of the ticket>.<slot>.
func TicketHeader(t Ticket, slot uint32) string {
	return base64.RawURLEncoding.EncodeToString(t[:]) + "." + strconv.FormatUint(uint64(slot), 10)
}

// ParseTicketHeader reads what TicketHeader writes, and nothing else. The error is ErrMalformed. Whether the ticket is
// the slot's only who has the key can say.
func ParseTicketHeader(header string) (t Ticket, slot uint32, err error) {
	text, number, found := strings.Cut(header, ".")
	b, bad := base64.RawURLEncoding.Strict().DecodeString(text)
	n, wrong := strconv.ParseUint(number, 10, 32)
	if !found || bad != nil || wrong != nil || len(b) != TicketSize {
		return t, 0, fmt.Errorf("%w: not <base64url of %d bytes>.<slot>", ErrMalformed, TicketSize)
	}
	t, slot = Ticket(b), uint32(n)
	if TicketHeader(t, slot) != header {
		return Ticket{}, 0, fmt.Errorf("%w: a ticket that is not written the one way", ErrMalformed)
	}
	return t, slot, nil
}

// MaxFrames is how many announcements an ingress sends at a time.
const MaxFrames = 256

// AppendFrame appends a signed announcement to what an ingress sends of a chain: its length in 4 bytes, big endian, and
// its bytes. It has 1 to MaxStatement bytes.
func AppendFrame(dst, signed []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(signed))), signed...)
}

// ReadFrames hands what AppendFrame wrote to f, one signed announcement after another, until r ends or f returns an
// error, which is returned. Nothing is verified but the lengths: ErrMalformed is for one of 0, for bytes that end
// before they should, and for more than MaxFrames; ErrTooLarge for more than MaxStatement bytes. Each announcement has
// memory of its own, no more than came.
func ReadFrames(r io.Reader, f func(signed []byte) error) error {
	for n := 0; ; n++ {
		var head [4]byte
		if _, err := io.ReadFull(r, head[:]); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("%w: a length of a signed announcement is cut off (%w)", ErrMalformed, err)
		}
		size := binary.BigEndian.Uint32(head[:])
		switch {
		case size > MaxStatement:
			return fmt.Errorf("%w: a signed announcement of %d bytes, at most %d", ErrTooLarge, size, MaxStatement)
		case size == 0:
			return fmt.Errorf("%w: an empty announcement", ErrMalformed)
		case n == MaxFrames:
			return fmt.Errorf("%w: more than %d announcements", ErrMalformed, MaxFrames)
		}
		signed, err := io.ReadAll(io.LimitReader(r, int64(size)))
		if err == nil && len(signed) < int(size) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return fmt.Errorf("%w: a signed announcement is cut off (%w)", ErrMalformed, err)
		}
		if err := f(signed); err != nil {
			return err
		}
	}
}
