// Package group writes what many goroutines want durable at the same time with one write to the disk: group commit.
//
// Nobody waits for company. While one write is under way everything that is added gathers, and the next write takes all
// of it, so that a write holds what one write takes to gather, and what is added to an idle group is written at once.
package group

import (
	"errors"
	"sync"
)

// ErrClosed is the answer to an Add after Close. Nothing was written.
var ErrClosed = errors.New("group: closed")

// most bounds the items of one write, so that a burst does not grow one transaction without end.
const most = 4096

// Group is a queue in front of one writer. Safe for concurrent use.
type Group[T any] struct {
	write   func([]T) error
	pending chan *item[T]
	done    chan struct{}

	mu     sync.RWMutex
	closed bool
}

// item is what was added, on its way to the disk.
type item[T any] struct {
	value T
	done  chan struct{}
	err   error
}

func (i *item[T]) resolve(err error) {
	i.err = err
	close(i.done)
}

// New begins a group. write makes the values durable, in that order and all of them or none; one goroutine calls it,
// until Close. After the first error of it, which may have written the values or not, nothing more is written, and
// everything that is added has that error: what comes after a failed write could be there without it.
func New[T any](write func([]T) error) *Group[T] {
	g := &Group[T]{write: write, pending: make(chan *item[T], most), done: make(chan struct{})}
	go g.run()
	return g
}

// Add adds a value behind all those whose Add began before. durable waits until the value, and every one before it, is
// durable. It may be called from many goroutines, or not at all. Its error is that of the write, or ErrClosed.
func (g *Group[T]) Add(value T) (durable func() error) {
	i := &item[T]{value: value, done: make(chan struct{})}
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.closed {
		i.resolve(ErrClosed)
	} else {
		g.pending <- i
	}
	return func() error {
		<-i.done
		return i.err
	}
}

// Close writes what is pending and ends the group. Later calls do nothing.
func (g *Group[T]) Close() {
	g.mu.Lock()
	if !g.closed {
		g.closed = true
		close(g.pending)
	}
	g.mu.Unlock()
	<-g.done
}

func (g *Group[T]) run() {
	defer close(g.done)
	var err error
	for first := range g.pending {
		items := g.gather(first)
		if err == nil {
			values := make([]T, len(items))
			for i := range items {
				values[i] = items[i].value
			}
			err = g.write(values)
		}
		for _, i := range items {
			i.resolve(err)
		}
	}
}

// gather is an item with all that wait behind it.
func (g *Group[T]) gather(first *item[T]) []*item[T] {
	items := []*item[T]{first}
	for len(items) < most {
		select {
		case next, ok := <-g.pending:
			if !ok {
				return items
			}
			items = append(items, next)
		default:
			return items
		}
	}
	return items
}
