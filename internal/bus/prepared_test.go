package bus_test

import (
	"slices"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
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
