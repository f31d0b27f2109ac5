package work

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// leadAfter answers once a time has passed, as one does that gets the worker's keys by then.
type leadAfter struct{ at time.Time }

func (l leadAfter) Ask(ctx context.Context, _ string, _ []byte) ([]byte, error) {
	select {
	case <-time.After(time.Until(l.at)):
		return []byte(`{}`), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// watchedReports tells when a worker begins to take reports.
type watchedReports struct {
	Broker
	taken chan time.Time
}

func (w watchedReports) ReceiveReports(ctx context.Context, _ func(*bus.Delivery)) error {
	w.taken <- time.Now()
	<-ctx.Done()
	return context.Cause(ctx)
}

// A worker whose lead does not answer, because the two have other keys, leaves the reports to those who can have them
// decided: it would keep each for half a minute, and a cohort would wait for hours.
func TestAWorkerTakesNoReportsWithoutItsLead(t *testing.T) {
	key, err := seal.GenerateHPKE()
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		broker := watchedReports{taken: make(chan time.Time, 1)}
		w, err := New(Config{Deployment: "test", Keys: []*seal.HPKEKey{key}, Bus: broker,
			Source: func() protocol.Source { return entropy.New() }, Log: testbed.Log()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		answers := time.Now().Add(time.Hour)
		ended := make(chan error, 1)
		go func() { ended <- w.Arrive(ctx, leadAfter{answers}) }()
		if began := <-broker.taken; began.Before(answers) {
			t.Errorf("it takes reports %v before its lead answers", answers.Sub(began))
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
