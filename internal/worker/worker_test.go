package worker_test

import (
	"context"
	"errors"
	"testing"

	"github.com/riffle-dp/riffle/internal/worker"
)

// A pool without further processes gives a handler's result, tells its failures apart from those of the pool, and ends
// with its context.
func TestAPoolInsideDoesTasks(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	p := worker.Inside(1, worker.Handlers{
		"double": func(_ context.Context, b []byte) ([]byte, error) { return append(b, b...), nil },
		"fail":   func(context.Context, []byte) ([]byte, error) { return nil, errors.New("no such release") },
		"large":  func(context.Context, []byte) ([]byte, error) { return make([]byte, worker.MaxBody+1), nil },
		"hold":   func(context.Context, []byte) ([]byte, error) { <-hold; return nil, nil },
	})
	ctx, cancel := context.WithCancel(t.Context())
	if b, err := p.Do(ctx, worker.Task{Kind: "double", Body: []byte("ab")}); err != nil || string(b) != "abab" {
		t.Errorf("%q, %v", b, err)
	}
	for kind, want := range map[string]error{
		"fail": worker.ErrFailed, "large": worker.ErrTooLarge, "unheard": worker.ErrKind,
	} {
		if _, err := p.Do(ctx, worker.Task{Kind: kind}); !errors.Is(err, want) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	large := worker.Task{Kind: "double", Body: make([]byte, worker.MaxBody+1)}
	if _, err := p.Do(ctx, large); !errors.Is(err, worker.ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	go p.Do(ctx, worker.Task{Kind: "hold"})
	cancel() // whether the first holds the only place or not, nobody waits for a place any more
	if _, err := p.Do(ctx, worker.Task{Kind: "double"}); !errors.Is(err, context.Canceled) && err != nil {
		t.Errorf("after the end: %v", err)
	}
	close(hold)
}
