package shuffle

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/riffle-dp/riffle/internal/channel"
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

// exists tells whether the release was permuted before.
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

// write stores the messages, which stand one after another, in a uniformly random order. It sorts them before: what is
// stored is a function of the set of messages and of the source's words, whoever sent which message, and when. So even a
// source that is weak tells nobody who sent what.
func (s spool) write(messages []byte, src protocol.Source) error {
	order := make([]uint32, len(messages)/s.size)
	for i := range order {
		order[i] = uint32(i)
	}
	at := func(message uint32) []byte { return messages[int(message)*s.size:][:s.size] }
	slices.SortFunc(order, func(a, b uint32) int { return bytes.Compare(at(a), at(b)) })
	protocol.Permute(order, src)
	return s.disk.Store(s.name, func(w io.Writer) error {
		const run = 1 << 18 // bytes per write, at least
		buffer := make([]byte, 0, run+s.size)
		for i, message := range order {
			buffer = append(buffer, at(message)...)
			if len(buffer) >= run || i == len(order)-1 {
				if _, err := w.Write(buffer); err != nil {
					return err
				}
				buffer = buffer[:0]
			}
		}
		return nil
	})
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
