package bus_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
)

// The shuffler hears of an answer well before it would look by itself.
func TestAnAnswerIsHeardOfAtOnce(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	ana, shuf := b.connect(bus.Analyzer), b.connect(bus.Shuffler)
	ctx := b.ctx()
	noticed := func(round uint32) bool {
		news, stop, err := shuf.Prepared.PreparedNews(7, round)
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		if err := shuf.NATS().FlushWithContext(ctx); err != nil { // the broker has the subscription
			t.Fatal(err)
		}
		if err := ana.Prepared.PublishPrepared(ctx, 7, round, 2, []byte("answer")); err != nil {
			t.Fatal(err)
		}
		select {
		case <-news:
			return true
		case <-time.After(time.Second): // without a notice it takes two
			return false
		}
	}
	if !slices.ContainsFunc([]uint32{1, 11, 12, 13}, noticed) { // a busy machine may be late once
		t.Error("no notice of an answer, four times")
	}
}

// A deployment that was provisioned before there were answers gets their stream when it is provisioned again. Until
// then a call that ends says that the stream is missing.
func TestProvisionAddsTheStreamOfAnswers(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	admin := b.connect(bus.Admin)
	if err := admin.JetStream().DeleteStream(b.ctx(), bus.StreamPrepared); err != nil {
		t.Fatal(err)
	}
	ana := b.connect(bus.Analyzer)
	purge := func(within time.Duration) error {
		short, stop := context.WithTimeout(b.ctx(), within)
		defer stop()
		return ana.Prepared.PurgePrepared(short, 0, 0)
	}
	err := purge(time.Second)
	if !errors.Is(err, bus.ErrUnprovisioned) { // a busy broker may not have answered by then
		err = purge(testbed.Patience / 2)
	}
	if !errors.Is(err, bus.ErrUnknown) || !errors.Is(err, bus.ErrUnprovisioned) {
		t.Errorf("purging no stream: %v", err)
	}
	for range 2 {
		if err := bus.Provision(b.ctx(), admin, bus.ProvisionOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := admin.JetStream().Stream(b.ctx(), bus.StreamPrepared); errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Error("no stream of answers")
	}
	if err := ana.Prepared.PublishPrepared(b.ctx(), 1, 0, 0, []byte("x")); err != nil {
		t.Error(err)
	}
}
