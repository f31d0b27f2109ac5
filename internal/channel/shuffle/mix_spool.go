package shuffle

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/spill"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// A spool is one release's messages, permuted once and on disk, so that a retry after a crash sends exactly the same
// bytes in the same order. It holds ciphertext that only the analyzer opens, and nothing about who sent what, or which
// messages are the shuffler's noise. The permutation itself is never stored. The spool is removed when the manifest is
// out.
type spool struct {
	disk channel.Disk
	name string
	size int // of a message, in bytes
}

func (m *Mixing) spool(r *channel.Release) spool {
	return spool{m.Disk, spoolName(r.Epoch, r.Round), messageSize(r.Layout)}
}

func spoolName(epoch uint64, round uint32) string { return fmt.Sprintf("release-%d-%d", epoch, round) }

// exists reports whether the release was permuted before.
func (s spool) exists() (bool, error) {
	f, err := s.disk.Open(s.name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, f.Close()
}

// write stores the messages of all buckets, bucket by bucket, those of each in a uniformly random order.
func (s spool) write(buckets *spill.Buckets, p permuter) error {
	return s.disk.Store(s.name, func(w io.Writer) error {
		p.w = w
		for i := range buckets.Len() {
			if err := p.permute(buckets.Pile(i)); err != nil {
				return err
			}
		}
		return p.flush()
	})
}

// writeSize is how many bytes are written at a time, at least.
const writeSize = 1 << 18

// permuter writes piles of messages, each in a uniformly random order. Its memory serves one after another.
type permuter struct {
	store *spill.Store
	src   protocol.Source
	size  int   // of a message, in bytes
	most  int64 // messages that are permuted in memory
	fan   int   // buckets of a pile that has more

	w        io.Writer
	messages []byte
	order    []uint32
	out      []byte
}

// permute writes one pile. One with too many messages is put into buckets itself.
func (p *permuter) permute(pile *spill.Pile) error {
	if pile.Size() > p.most*int64(p.size) {
		return p.divide(pile)
	}
	p.messages = slices.Grow(p.messages[:0], int(pile.Size()))
	err := pile.Read(p.size, func(b []byte) error {
		p.messages = append(p.messages, b...)
		return nil
	})
	if err != nil {
		return err
	}
	n := len(p.messages) / p.size
	p.order = slices.Grow(p.order[:0], n)[:n]
	for i := range p.order {
		p.order[i] = uint32(i)
	}
	protocol.Permute(p.order, p.src)
	for _, message := range p.order {
		p.out = append(p.out, p.messages[int(message)*p.size:][:p.size]...)
		if len(p.out) >= writeSize {
			if err := p.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// divide writes one pile bucket by bucket.
func (p *permuter) divide(pile *spill.Pile) error {
	buckets := p.store.Buckets(p.fan, p.size)
	defer buckets.Close()
	var to []uint32
	err := pile.Read(p.size, func(b []byte) error {
		n := len(b) / p.size
		to = slices.Grow(to[:0], n)[:n]
		protocol.Buckets(to, p.fan, p.src)
		return buckets.Append(b, to)
	})
	if err != nil {
		return err
	}
	for i := range buckets.Len() {
		if err := p.permute(buckets.Pile(i)); err != nil {
			return err
		}
	}
	return nil
}

// flush writes what was not written yet.
func (p *permuter) flush() error {
	_, err := p.w.Write(p.out)
	p.out = p.out[:0]
	return err
}

// chunks calls send with every run of at most this many messages, in order, and returns how many messages there are.
// The slice is valid only during the call.
func (s spool) chunks(most int, send func(index uint32, part []byte) error) (messages uint64, err error) {
	f, err := s.disk.Open(s.name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	buffer := make([]byte, most*s.size)
	for index := uint32(0); ; index++ {
		n, err := io.ReadFull(f, buffer)
		if n == 0 && errors.Is(err, io.EOF) {
			return messages, nil
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, fmt.Errorf("spool: %w", err)
		}
		if n%s.size != 0 {
			return 0, fmt.Errorf("spool %s ends inside a message", s.name)
		}
		if err := send(index, buffer[:n]); err != nil {
			return 0, err
		}
		messages += uint64(n / s.size)
	}
}
