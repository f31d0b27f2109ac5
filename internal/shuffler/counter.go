package shuffler

import (
	"sync"

	"github.com/riffle-dp/riffle/internal/shuffler/work"
)

// counter is where workers' claims are answered.
type counter struct {
	failed chan error // an error after which the shuffler must stop

	mu       sync.Mutex
	answered map[work.BatchID]*answered
	order    []work.BatchID
}

// answered is a batch that was asked about.
type answered struct {
	done  chan struct{} // closed when there is an answer
	reply []byte        // nil where there was none
}

// remembered is how many batches are known again. A worker has few under way, and repeats one within moments.
const remembered = 4096

func newCounter() *counter {
	return &counter{failed: make(chan error, 1), answered: map[work.BatchID]*answered{}}
}

// begin reports whether a batch is new, and else returns what was answered, or is being answered now.
func (k *counter) begin(id work.BatchID) (a *answered, fresh bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if a := k.answered[id]; a != nil {
		return a, false
	}
	a = &answered{done: make(chan struct{})}
	k.answered[id] = a
	if k.order = append(k.order, id); len(k.order) > remembered {
		delete(k.answered, k.order[0])
		k.order = k.order[1:]
	}
	return a, true
}
