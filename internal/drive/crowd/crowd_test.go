package crowd

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/riffle-dp/riffle/internal/population"
)

func people(t *testing.T, n int) *population.Population {
	t.Helper()
	p, err := population.Synthetic(population.SyntheticOptions{Users: n, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Everyone is served, and a person who is not sampled comes again until they are.
func TestPeopleComeAgainUntilTheyAreSampled(t *testing.T) {
	const n = 200
	var mu sync.Mutex
	visits := make([]int, n)
	c := Crowd{Population: people(t, n), Gate: NewGate(true, nil), Concurrency: 8}
	c.Serve = func(_ context.Context, v Visit) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		visits[v.Number]++
		return visits[v.Number] <= v.Number%3, nil
	}
	if err := c.Drive(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, got := range visits {
		if got != 1+i%3 {
			t.Errorf("person %d came %d times", i, got)
		}
	}
}

// No more people are sent than the cohort has slots, and a slot that was given back is used.
func TestPeopleComeWhileTheCohortHasPlaces(t *testing.T) {
	p := people(t, 20)
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(false, nil)
		g.epoch, g.size, g.free = 1, 3, 3
		var came []int
		c := Crowd{Population: p, Gate: g, Concurrency: 1}
		c.Serve = func(_ context.Context, v Visit) (bool, error) {
			if came = append(came, v.Number); v.Number == 1 {
				g.Left(nil)
			}
			return false, nil
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Drive(ctx) }()
		synctest.Wait() // until the next person waits for a slot
		if !slices.Equal(came, []int{0, 1, 2, 3}) {
			t.Errorf("%v came", came)
		}
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// A population that cannot be read to its end, and a visit that fails, end the drive with their error.
func TestErrorsEndTheDrive(t *testing.T) {
	broken, whole := errors.New("the disk is gone"), people(t, 100)
	unreadable := population.New(whole.Info(), func(yield func(population.Person, error) bool) {
		n := 0
		for person, err := range whole.People() {
			if n == 30 {
				err = broken
			}
			if n++; !yield(person, err) || err != nil {
				return
			}
		}
	}, nil)
	for name, p := range map[string]*population.Population{"population": unreadable, "visit": whole} {
		var mu sync.Mutex
		seen := map[int]bool{}
		c := Crowd{Population: p, Gate: NewGate(true, nil), Concurrency: 4}
		c.Serve = func(_ context.Context, v Visit) (bool, error) {
			mu.Lock()
			defer mu.Unlock()
			if seen[v.Number] = true; v.Number == 30 {
				return true, broken
			}
			return false, nil
		}
		err := c.Drive(t.Context())
		want := map[string]string{
			"population": "person 30 of the population: the disk is gone", "visit": "person 30: the disk is gone",
		}[name]
		if !errors.Is(err, broken) || err.Error() != want {
			t.Errorf("%s: %v", name, err)
		}
		if name == "population" && len(seen) != 30 {
			t.Errorf("%d people were served before the error", len(seen))
		}
	}
}
