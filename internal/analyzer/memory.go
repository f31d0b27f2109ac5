package analyzer

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/riffle-dp/riffle/internal/channel/spill"
)

// DefaultMemory is how many bytes counting may take by default, beside what grows with people. Half of it is for
// digests of messages, which go to a file beyond that; a quarter for chunks that workers open; the rest for what is on
// its way.
const DefaultMemory = 256 << 20

// Bounds of the setting: the least holds a few of the largest chunks.
const (
	leastMemory = 64 << 20
	mostMemory  = 1 << 40
)

// workersMemory is how many bytes of chunks may be with workers at a time.
func (c Config) workersMemory() int { return int(cmp.Or(c.Memory, DefaultMemory) / 4) }

// scratch opens the store of what does not fit into memory. clean removes it.
func (c Config) scratch() (store *spill.Store, clean func() error, err error) {
	folder, remove := c.Scratch, func() error { return nil }
	if folder == "" {
		if folder, err = os.MkdirTemp("", "riffle-analyzer-"); err != nil {
			return nil, nil, fmt.Errorf("analyzer: without a folder for state, what does not fit into memory needs "+
				"the system's temporary folder: set state, or TMPDIR to a folder that can be written to: %w", err)
		}
		remove = func() error { return os.RemoveAll(folder) }
	}
	if store, err = spill.New(folder, cmp.Or(c.Memory, DefaultMemory)/2); err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	return store, func() error { return errors.Join(store.Close(), remove()) }, nil
}
