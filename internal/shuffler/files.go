package shuffler

import (
	"errors"
	"path/filepath"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel/spill"
	"github.com/riffle-dp/riffle/internal/journal"
	"github.com/riffle-dp/riffle/internal/translog"
)

// Journal keeps the shuffler's events in order. *journal.Journal is one, and documents each method.
type Journal interface {
	Replay(f func(entry []byte) error) error
	Append(entry []byte) (durable func() error)
	Replace(entries ...[]byte) (durable func() error)
	Close() error
}

// Files are what a shuffler keeps.
type Files struct {
	Journal Journal
	Log     *translog.Log
	Store   *spill.Store // of admitted reports, and of messages that are mixed
}

// OpenFiles opens those of a state folder, which belong to one process. Mixing may take so many MiB of its memory.
func OpenFiles(folder string, memory int, of Party, broker Broker, log zerolog.Logger) (f Files, err error) {
	kept, err := journal.Open(filepath.Join(folder, "journal"))
	if err != nil {
		return f, err
	}
	f.Journal = kept
	f.Log, err = translog.New(translog.Config{
		Deployment: of.Deployment, Role: bus.Shuffler, Identity: of.Identity, Broker: broker,
		Path: filepath.Join(folder, "log"), Log: log,
	})
	if err != nil {
		return f, errors.Join(err, f.Close())
	}
	if f.Store, err = OpenStore(folder, memory); err != nil {
		return f, errors.Join(err, f.Close())
	}
	return f, nil
}

// OpenStore opens what is kept in memory and beyond it for mixing, which may take so many MiB of memory.
func OpenStore(folder string, memory int) (*spill.Store, error) {
	// Half of the memory is live at most, because the heap grows to twice of that before it is collected: a quarter for
	// the store, and as much for what is loaded of it.
	return spill.New(folder, int64(memory)<<20/4)
}

// Close lets go of them.
func (f Files) Close() error {
	err := f.Journal.Close()
	if f.Log != nil {
		err = errors.Join(err, f.Log.Close())
	}
	if f.Store != nil {
		err = errors.Join(err, f.Store.Close())
	}
	return err
}
