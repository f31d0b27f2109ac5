package worker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// id is 128 random bits.
type id [16]byte

func (b *Sealer) newID() id { return id(b.draw(len(id{}))) }

// direction is which way a letter goes. No letter of one direction can be taken for one of another.
type direction string

const (
	toWorker direction = "task"
	toLead   direction = "call"
	back     direction = "reply"
)

// head is what is in the clear before a letter, and what its seal binds. A reply has the head of its call.
type head struct {
	incarnation id // of the lead that the letter comes from or goes to; zero where the worker knows none yet
	id          id // of the task or of the call
	kind        string
}

const (
	letterVersion = 1
	maxKind       = 64
)

func (h head) bytes() []byte {
	b := append([]byte{letterVersion}, h.incarnation[:]...)
	b = append(b, h.id[:]...)
	return append(append(b, byte(len(h.kind))), h.kind...)
}

func (h head) place(d direction) string { return string(d) + "\x00" + string(h.bytes()) }

var errLetter = errors.New("worker: malformed message")

func parseHead(b []byte) (h head, rest []byte, err error) {
	const fixed = 1 + 2*len(id{}) + 1
	if len(b) < fixed || b[0] != letterVersion || int(b[fixed-1]) > maxKind || len(b) < fixed+int(b[fixed-1]) {
		return head{}, nil, fmt.Errorf("%w: %d bytes", errLetter, len(b))
	}
	end := fixed + int(b[fixed-1])
	return head{incarnation: id(b[1:17]), id: id(b[17:33]), kind: string(b[fixed:end])}, b[end:], nil
}

// leastBody is the size of the shortest bodies. A result is longer than its body by less.
const leastBody = 256

// paddedSize is how many bytes a body of n takes: the next power of two, so that the broker learns no more of a length.
// A length can say how many messages are in which bucket.
func paddedSize(n int) int {
	p := max(1<<bits.Len(uint(max(n, 1)-1)), leastBody)
	if p > MaxBody {
		return MaxBody + leastBody
	}
	return p
}

// seal makes a letter; parts are the body's.
func (b *Sealer) seal(h head, d direction, parts ...[]byte) []byte {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	plain := make([]byte, 0, 4+paddedSize(n))
	plain = binary.LittleEndian.AppendUint32(plain, uint32(n))
	for _, p := range parts {
		plain = append(plain, p...)
	}
	plain = plain[:cap(plain)]
	var dst []byte
	if d != back {
		dst = h.bytes()
	}
	return b.Seal(dst, h.place(d), plain)
}

// open opens what follows a letter's head.
func (b *Sealer) open(h head, d direction, sealed []byte) ([]byte, error) {
	plain, err := b.Open(h.place(d), sealed)
	if err != nil {
		return nil, err
	}
	if len(plain) < 4 {
		return nil, errLetter
	}
	n := binary.LittleEndian.Uint32(plain)
	if uint64(n) > uint64(len(plain)-4) {
		return nil, errLetter
	}
	return plain[4 : 4+n : 4+n], nil
}

// What a worker says to the lead, besides questions.
const (
	callHello = ".hello" // that it lives: its id, how many tasks it does at a time
	callBegin = ".begin" // whether a task is wanted: the task's id
	callDone  = ".done"  // a task's result: the task's id, a status and the result
)

// status is how a call or a task ended.
type status byte

const (
	statusOK     status = iota
	statusFailed        // the handler's words
	statusKind          // nobody answers this kind of question here
	statusMoved         // there is another lead: its incarnation
	statusNo            // the task is not wanted any more
)
