package crowd

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/riffle-dp/riffle/pkg/client"
)

// A randomizer that does not answer keeps all people waiting, and the caller is told once.
func TestGateTellsOfAnAbsentRandomizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		g := NewGate(false, func(i int, err error) {
			if told++; i != 0 || err == nil {
				t.Errorf("%d: %v", i, err)
			}
		})
		ctx, stop := context.WithTimeout(t.Context(), 3*Patience)
		defer stop()
		c := client.New(client.Options{})
		defer c.Close()
		if err := g.Watch(ctx, c, []client.Base{client.At("://nowhere")}); err == nil || told != 1 {
			t.Errorf("told %d times, %v", told, err)
		}
	})
}

func TestGateLetsInOnePersonForEachPlace(t *testing.T) {
	g := NewGate(false, nil)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	status := func(epoch uint64, enrolling bool) client.Status {
		return client.Status{Epoch: epoch, Cohort: 2, Enrolling: enrolling}
	}
	g.see([]client.Status{status(1, true), status(0, false)}) // one is behind: the gate is closed
	if g.Try() {
		t.Fatal("a person came too early")
	}
	g.see([]client.Status{status(1, true), status(1, true)})
	for i, want := range []bool{true, true, false} {
		if g.Try() != want {
			t.Fatalf("person %d came: %v", i, !want)
		}
	}
	g.Left(&client.Decision{Epoch: 1, Reason: client.ShufflerUnreachable}) // their slot is free again
	if err := g.Enter(ctx); err != nil || g.Try() {
		t.Fatal("not one more came")
	}
	g.see([]client.Status{status(1, true), status(1, true)}) // the same epoch gives no new slots
	if g.Try() {
		t.Fatal("a place came without a cohort")
	}
	g.see([]client.Status{status(2, true), status(2, true)})
	g.Left(&client.Decision{Epoch: 1, Reason: client.ShufflerUnreachable}) // of an earlier cohort
	g.Left(&client.Decision{Epoch: 2, Reason: client.CohortFull})
	if g.Try() {
		t.Fatal("a person came to a full cohort")
	}
	entered := make(chan error, 1)
	go func() { entered <- g.Enter(ctx) }()
	g.see([]client.Status{{Epoch: 3, Final: true}, {Epoch: 3, Final: true}})
	if err := <-entered; err != nil || !g.Try() {
		t.Error("the last policy lets all people in")
	}
	g = NewGate(false, nil)
	g.see([]client.Status{{Epoch: 1, Refused: "weak"}, {Epoch: 1, Refused: "weak"}})
	if err := g.Enter(ctx); err == nil {
		t.Error("all randomizers refuse the plan, and people came")
	}
}

// After everyone was served, the last policy is waited for; a further cohort, which no person would fill, is an error.
func TestGateTellsWhetherLearningEnds(t *testing.T) {
	for name, test := range map[string]struct {
		next client.Status
		want error
	}{
		"last policy":    {client.Status{Epoch: 2, Final: true}, nil},
		"another cohort": {client.Status{Epoch: 2, Cohort: 2, Enrolling: true}, ErrPopulationEnded},
		"refused plan":   {client.Status{Epoch: 2, Refused: "weak"}, ErrPlanRefused},
	} {
		g := NewGate(false, nil)
		g.see([]client.Status{{Epoch: 1, Cohort: 1, Enrolling: true}})
		if !g.Try() {
			t.Fatal("the cohort has no place")
		}
		ended := make(chan error, 1)
		go func() { ended <- g.AwaitLastPolicy(t.Context()) }()
		g.see([]client.Status{test.next})
		if err := <-ended; !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
