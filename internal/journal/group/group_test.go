package group

import (
	"errors"
	"slices"
	"sync"
	"testing"
)

// What is added while a write is under way is written together, in order, and nobody is answered before.
func TestWritesAreShared(t *testing.T) {
	begun, finish := make(chan []int), make(chan error)
	g := New(func(values []int) error {
		begun <- slices.Clone(values)
		return <-finish
	})
	first := g.Add(1)
	if got := <-begun; !slices.Equal(got, []int{1}) {
		t.Fatalf("the first write holds %v", got)
	}
	var waits []func() error
	for i := range 10 {
		waits = append(waits, g.Add(i+2))
	}
	finish <- nil
	if err := first(); err != nil {
		t.Fatal(err)
	}
	if got := <-begun; len(got) != 10 || !slices.IsSorted(got) {
		t.Fatalf("the second write holds %v", got)
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		for _, wait := range waits {
			if err := wait(); err != nil {
				t.Error(err)
			}
		}
	}()
	select {
	case <-answered:
		t.Fatal("answered before it was written")
	default:
	}
	finish <- nil
	<-answered
	g.Close()
}

// After a failed write nothing is written any more, and everybody hears of it.
func TestNothingFollowsAFailure(t *testing.T) {
	broken, writes := errors.New("broken"), 0
	g := New(func([]int) error { writes++; return broken })
	for range 3 {
		if err := g.Add(1)(); !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
	}
	g.Close()
	if writes != 1 {
		t.Errorf("%d writes", writes)
	}
	if err := g.Add(1)(); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// Close writes what was added before.
func TestCloseWritesWhatIsPending(t *testing.T) {
	var mu sync.Mutex
	n := 0
	g := New(func(values []int) error {
		mu.Lock()
		defer mu.Unlock()
		n += len(values)
		return nil
	})
	for range 100 {
		g.Add(1)
	}
	g.Close()
	g.Close()
	if n != 100 {
		t.Errorf("%d of 100 written", n)
	}
}
