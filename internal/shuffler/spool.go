package shuffler

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// A spool is one release's bit messages, permuted once and on disk, so that a retry after a crash forwards exactly the same bytes
// in the same order. It holds ciphertext that only the analyzer opens and nothing about who sent what. The permutation itself is
// never stored. The spool is removed when the manifest is out.
type spool struct{ path string }

func spoolOf(dir string, r *Release) spool {
	return spool{filepath.Join(dir, fmt.Sprintf("release-%d-%d", r.Epoch, r.Round))}
}

// exists tells whether the release was permuted before. A spool appears under its name only when it is whole.
func (s spool) exists() (bool, error) {
	_, err := os.Stat(s.path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// write permutes the bit messages uniformly, in place, and stores them.
func (s spool) write(bits [][seal.BitSize]byte, src protocol.Source) (err error) {
	protocol.Permute(bits, src)
	part := s.part()
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("spool: %w", err), f.Close(), os.Remove(part))
		}
	}()
	const run = 4096 // messages per write
	buffer := make([]byte, 0, run*seal.BitSize)
	for i := range bits {
		buffer = append(buffer, bits[i][:]...)
		if len(buffer) == cap(buffer) || i == len(bits)-1 {
			if _, err := f.Write(buffer); err != nil {
				return err
			}
			buffer = buffer[:0]
		}
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(part, s.path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(s.path))
}

// chunks calls forward with every run of at most size bit messages, in order, and returns how many messages there are. The slice
// is valid only during the call.
func (s spool) chunks(size int, forward func(index uint32, bits []byte) error) (messages uint64, err error) {
	f, err := os.Open(s.path)
	if err != nil {
		return 0, fmt.Errorf("spool: %w", err)
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
			return 0, fmt.Errorf("spool %s ends inside a bit message", s.path)
		}
		if err := forward(index, buffer[:n]); err != nil {
			return 0, err
		}
		messages += uint64(n / seal.BitSize)
	}
}

// remove forgets the release, whole or not.
func (s spool) remove() error {
	for _, path := range []string{s.path, s.part()} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("spool: %w", err)
		}
	}
	return nil
}

// part is where the release is written.
func (s spool) part() string { return s.path + ".part" }

// syncFolder makes a rename inside the folder durable. Windows cannot flush a folder, and gives no such promise.
func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
