package shuffle

import (
	"bytes"
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/spill"
	"github.com/riffle-dp/riffle/pkg/channel/shuffle"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// How the messages of a release get into one uniformly random order in bounded memory. All are sorted by a keyed digest
// of their public keys, so that those that share one are beside each other, and so that what follows is a function of
// the set of messages and of the source's words, whoever sent which message, and when: even a source that is weak tells
// nobody who sent what. In that order each message is put into a bucket that is drawn for it alone. When the release is
// committed, each bucket is permuted in memory, and spooled behind the one before it (protocol.Buckets).

// scattered are the messages of a release, with the shuffler's noise, in their buckets.
type scattered struct {
	release [sha256.Size]byte // releaseDigest
	buckets *spill.Buckets
}

// of reports whether these are the messages of that release.
func (s *scattered) of(r *channel.Release) bool { return s != nil && s.release == releaseDigest(r) }

// releaseDigest is SHA-256 over what tells a release from another one with other members.
func releaseDigest(r *channel.Release) (digest [sha256.Size]byte) {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, r.Epoch), r.Round))
	var b [memberSize]byte
	for _, m := range r.Members {
		b = memberBytes(m)
		h.Write(b[:])
	}
	h.Sum(digest[:0])
	return digest
}

// digested is how many bytes of a keyed digest precede a message when it is sorted, and slotSize those of a slot
// behind it.
const (
	digested = 8
	slotSize = 4
)

// noSlot is the slot of the shuffler's own noise. No cohort has so many.
const noSlot = 1<<32 - 1

// scatter puts the messages of the release's members, and the shuffler's noise, into buckets. slots are those of
// members that repeat a message; where there are any, it returns no buckets.
//
// A copy of a bit message would shift a count without adding the noise that an honest message brings, so the analyzer
// refuses a release that has one; and a device that could make it refuse could destroy every cohort. So no such report
// may get that far, and only those that take part in the repetition are refused. They are all refused, the first as
// well as the rest: each message is made with a key pair of its own, drawn from the system's generator, and until the
// release is out only its device's host and this shuffler see it. So a host that holds the same message does not follow
// the protocol or conspires with one that does not, and no honest person's report can be among them.
//
// Messages are compared by their public keys, not by the digests of them: two that share one are never both honest,
// whether or not the rest is equal. So this finds all that the analyzer could object to.
func (m *Mixing) scatter(ctx context.Context, r *channel.Release) (_ *scattered, slots []uint32, err error) {
	sorter, err := m.sort(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	defer sorter.Close()
	size := messageSize(r.Layout)
	buckets := m.Store.Buckets(m.buckets(sorter.Size(), size), size)
	defer func() {
		if err != nil || len(slots) > 0 {
			_ = buckets.Close() // never fails
		}
	}()
	var (
		same     = digested + seal.EncapsulatedSize
		entry    = digested + size + slotSize
		last     []byte // entry
		repeated = repeats{members: r.Members}
		messages []byte
		to       []uint32
	)
	err = sorter.Sorted(func(entries []byte) error {
		messages = messages[:0]
		before := last
		for next := range slices.Chunk(entries, entry) {
			if before != nil && bytes.Equal(before[:same], next[:same]) {
				repeated.add(before)
				repeated.add(next)
			}
			messages = append(messages, next[digested:digested+size]...)
			before = next
		}
		last = append(last[:0], before...)
		if repeated.found != nil {
			return nil // nothing is put into buckets any more
		}
		to = slices.Grow(to[:0], len(messages)/size)[:len(messages)/size]
		if clear(to); buckets.Len() > 1 {
			protocol.Buckets(to, buckets.Len(), m.Source)
		}
		return cmp.Or(context.Cause(ctx), buckets.Append(messages, to))
	})
	if err != nil {
		return nil, nil, err
	}
	if slots = repeated.slots(); len(slots) > 0 {
		return nil, slots, nil
	}
	return &scattered{releaseDigest(r), buckets}, nil, nil
}

// repeats are the members that repeat a message: a byte for each member, once there is one.
type repeats struct {
	members []channel.Member
	found   []bool
}

// add adds the member whose slot is in an entry.
func (x *repeats) add(entry []byte) {
	if x.found == nil {
		x.found = make([]bool, len(x.members))
	}
	slot := binary.BigEndian.Uint32(entry[len(entry)-slotSize:])
	if i, ok := slices.BinarySearchFunc(x.members, slot, bySlot); ok { // and not the shuffler's noise
		x.found[i] = true
	}
}

func (x *repeats) slots() (all []uint32) {
	for i, found := range x.found {
		if found {
			all = append(all, x.members[i].Slot)
		}
	}
	return all
}

// buckets is how many buckets so many messages of this size are put into: so many that each fits into an eighth of the
// store's memory, if that are not too many.
func (m *Mixing) buckets(messages int64, size int) int {
	return int(max(1, min((messages+m.inBucket(size)-1)/m.inBucket(size), int64(m.Store.Piles()))))
}

// divided is how many buckets the messages of one that does not fit into memory are put into.
const divided = 64

// inBucket is how many messages of this size are permuted in memory.
func (m *Mixing) inBucket(size int) int64 {
	if m.bucket > 0 {
		return int64(m.bucket)
	}
	return max(1, m.Store.Memory()/8/int64(size))
}

// sort returns a sorter of all messages of the release, each between the keyed digest of its public key and its slot.
func (m *Mixing) sort(ctx context.Context, r *channel.Release) (_ *spill.Sorter, err error) {
	size := messageSize(r.Layout)
	sorter := m.Store.Sorter(digested + size + slotSize)
	defer func() {
		if err != nil {
			_ = sorter.Close() // never fails
		}
	}()
	d := newDigester(m.Source)
	var entries []byte
	add := func(slot uint32, messages []byte) error {
		entries = entries[:0]
		for message := range slices.Chunk(messages, size) {
			entries = binary.BigEndian.AppendUint64(entries, d.digest(message))
			entries = append(entries, message...)
			entries = binary.BigEndian.AppendUint32(entries, slot)
		}
		return sorter.Append(entries)
	}
	if err := m.gather(ctx, r, add); err != nil {
		return nil, err
	}
	return sorter, shuffle.EachNoise(ctx, r.Announced, r.Announcement, m.Source, func(messages []byte) error {
		return add(noSlot, messages)
	})
}

// digester digests public keys under a key of its own. So nobody outside can make a message whose place they know.
type digester struct {
	block cipher.Block
	at    [aes.BlockSize]byte
}

// newDigester draws a key.
func newDigester(src protocol.Source) *digester {
	var key []byte
	for range 4 {
		key = binary.BigEndian.AppendUint64(key, src.Uint64())
	}
	return digesterOf(key)
}

// digesterOf digests under this key of 32 bytes.
func digesterOf(key []byte) *digester {
	block, err := aes.NewCipher(key)
	if err != nil { // only for keys of another length
		panic(err)
	}
	return &digester{block: block}
}

// digest is the CBC-MAC of the two blocks of a message's public key, its first eight bytes.
func (d *digester) digest(message []byte) uint64 {
	d.block.Encrypt(d.at[:], message)
	for i, b := range message[aes.BlockSize:seal.EncapsulatedSize] {
		d.at[i] ^= b
	}
	d.block.Encrypt(d.at[:], d.at[:])
	return binary.BigEndian.Uint64(d.at[:])
}
