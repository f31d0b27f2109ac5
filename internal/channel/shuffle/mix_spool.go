package shuffle

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// A spool is one release's bit messages, permuted once and on disk, so that a retry after a crash sends exactly the
// same bytes in the same order. It holds ciphertext that only the analyzer opens, and nothing about who sent what. The
// permutation itself is never stored. The spool is removed when the manifest is out.
type spool struct {
	disk channel.Disk
	name string
}

func (m *Mixing) spool(epoch uint64, round uint32) spool {
	return spool{m.Disk, fmt.Sprintf("release-%d-%d", epoch, round)}
}

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

// write permutes the bit messages uniformly, in place, and stores them.
func (s spool) write(bits [][seal.BitSize]byte, src protocol.Source) error {
	protocol.Permute(bits, src)
	return s.disk.Store(s.name, func(w io.Writer) error {
		const run = 4096 // messages per write
		buffer := make([]byte, 0, run*seal.BitSize)
		for i := range bits {
			buffer = append(buffer, bits[i][:]...)
			if len(buffer) == cap(buffer) || i == len(bits)-1 {
				if _, err := w.Write(buffer); err != nil {
					return err
				}
				buffer = buffer[:0]
			}
		}
		return nil
	})
}

// chunks calls send with every run of at most size bit messages, in order, and returns how many bit messages there are.
// The slice is valid only during the call.
func (s spool) chunks(size int, send func(index uint32, bits []byte) error) (messages uint64, err error) {
	f, err := s.disk.Open(s.name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	buffer := make([]byte, size*seal.BitSize)
	for index := uint32(0); ; index++ {
		n, err := io.ReadFull(f, buffer)
		if n == 0 && errors.Is(err, io.EOF) {
			return messages, nil
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, fmt.Errorf("spool: %w", err)
		}
		if n%seal.BitSize != 0 {
			return 0, fmt.Errorf("spool %s ends inside a bit message", s.name)
		}
		if err := send(index, buffer[:n]); err != nil {
			return 0, err
		}
		messages += uint64(n / seal.BitSize)
	}
}

// remove forgets the release, whole or not.
func (s spool) remove() error { return s.disk.Remove(s.name) }
