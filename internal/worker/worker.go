// Package worker hands parts of a role's work to further processes of the same trust domain.
//
// A role has one *lead*: the process that holds its identity, its journal and its log, and decides. Beside it there may
// be any number of *workers*, which hold the keys that their work needs and keep nothing: they open, mix, count or
// verify, and whatever they do is decided, made durable and published by the lead, or is stored at the broker under a
// name that is taken once. So any worker may die at any step, and none is missed for longer than its task takes again.
//
// A task is done at least once, perhaps by several workers at the same time, and the lead uses the result of one of
// them. What a task leaves elsewhere must therefore be harmless if another worker does the task too.
package worker

import (
	"context"
	"errors"
	"fmt"
)

// MaxBody is how many bytes a task or its result may have.
const MaxBody = 4 << 20

// Task is a part of a role's work.
type Task struct {
	Kind string // names the Handler
	Body []byte // at most MaxBody bytes
}

// Handler does the tasks of one kind. It is called for several tasks at a time. Its error is the answer to the task
// where doing it again cannot help; the lead gets its text, which must say nothing of a record.
type Handler func(ctx context.Context, body []byte) (result []byte, err error)

// Handlers are what a worker can do, by kind.
type Handlers map[string]Handler

// Pool has tasks done. It is safe for concurrent use: the caller starts as many Do at a time as tasks may wait.
type Pool interface {
	// Do returns the result of a task once a worker has done it. A task whose worker died is given to another one.
	//
	// Errors: ErrFailed with the handler's words; ErrKind where no handler does such tasks; ErrTooLarge; the context's
	// cause.
	Do(ctx context.Context, t Task) (result []byte, err error)
	// Workers is how many processes do tasks, as far as is known: at least 1, since the lead does tasks too.
	Workers() int
}

var (
	// ErrFailed says that a worker did a task and could not. Doing it again would not help.
	ErrFailed = errors.New("worker: the task failed")
	// ErrKind says that no handler does tasks of this kind: lead and workers are of different versions.
	ErrKind = errors.New("worker: unknown kind of task")
	// ErrTooLarge says that a task or its result has more than MaxBody bytes.
	ErrTooLarge = errors.New("worker: too large")
)

// inside does tasks in the lead's own process.
type inside struct {
	handlers Handlers
	free     chan struct{} // a token for each task that may run
}

// Inside returns a pool without further processes: tasks are done in this one, at most parallel (above 0) at a time.
func Inside(parallel int, h Handlers) Pool {
	return &inside{h, make(chan struct{}, parallel)}
}

func (p *inside) Do(ctx context.Context, t Task) ([]byte, error) {
	do := p.handlers[t.Kind]
	switch {
	case do == nil:
		return nil, fmt.Errorf("%w %q", ErrKind, t.Kind)
	case len(t.Body) > MaxBody:
		return nil, fmt.Errorf("%w: a task %s of %d bytes, at most %d", ErrTooLarge, t.Kind, len(t.Body), MaxBody)
	}
	select {
	case p.free <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-p.free }()
	result, err := do(ctx, t.Body)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("%w: %s: %w", ErrFailed, t.Kind, err)
	case len(result) > MaxBody:
		return nil, fmt.Errorf("%w: the result of %s has %d bytes, at most %d", ErrTooLarge, t.Kind, len(result),
			MaxBody)
	}
	return result, nil
}

func (p *inside) Workers() int { return 1 }
