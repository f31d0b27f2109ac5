package bus_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
)

// An answer is stored once, the shuffler hears of it well before it would look by itself, and it goes when the analyzer
// says so.
func TestAnswersAreStoredOnceAndHeardOfAtOnce(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	ana, shuf := b.connect(bus.Analyzer), b.connect(bus.Shuffler)
	ctx := b.ctx()
	if _, err := shuf.Prepared.ReadPrepared(ctx, 7, 1, 2); !errors.Is(err, bus.ErrGone) {
		t.Errorf("no answer: %v", err)
	}
	noticed := func(round uint32) bool {
		news, stop, err := shuf.Prepared.PreparedNews(7, round)
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		if err := shuf.NATS().FlushWithContext(ctx); err != nil { // the broker has the subscription
			t.Fatal(err)
		}
		for range 2 {
			if err := ana.Prepared.PublishPrepared(ctx, 7, round, 2, []byte("answer")); err != nil {
				t.Fatal(err)
			}
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
	got, err := shuf.Prepared.ReadPrepared(ctx, 7, 1, 2)
	if err != nil || string(got) != "answer" {
		t.Errorf("%q, %v", got, err)
	}
	var exists *bus.ExistsError
	if err := ana.Prepared.PublishPrepared(ctx, 7, 1, 2, []byte("other")); !errors.As(err, &exists) {
		t.Errorf("another answer in its place: %v", err)
	}
	if err := shuf.Prepared.PublishPrepared(ctx, 7, 1, 3, []byte("x")); !errors.Is(err, bus.ErrForbidden) {
		t.Errorf("the shuffler answers itself: %v", err)
	}
	if err := shuf.Prepared.PurgePrepared(ctx, 7, 1); !errors.Is(err, bus.ErrForbidden) {
		t.Errorf("the shuffler drops answers: %v", err)
	}
	if err := ana.Prepared.PurgePrepared(ctx, 7, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := shuf.Prepared.ReadPrepared(ctx, 7, 1, 2); !errors.Is(err, bus.ErrGone) {
		t.Errorf("after the purge: %v", err)
	}
}

// The shuffler can ask whether what the analyzer signed is in the log.
func TestTheShufflerAsksForTheAnalyzersStatements(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	ana, shuf := b.connect(bus.Analyzer), b.connect(bus.Shuffler)
	for _, want := range []bool{false, true} {
		if in, err := shuf.Audit.Audited(b.ctx(), bus.Analyzer, "accepted", []byte("set")); err != nil || in != want {
			t.Errorf("%v, %v, want %v", in, err, want)
		}
		if err := ana.Audit.AppendAudit(b.ctx(), "accepted", []byte("set")); err != nil {
			t.Fatal(err)
		}
	}
}

// The shuffler reads what a role said under a kind, in the order of the log and nothing else.
func TestTheShufflerReadsWhatWasSaidUnderAKind(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	ana, shuf := b.connect(bus.Analyzer), b.connect(bus.Shuffler)
	for i, kind := range []string{"accepted-1-0", "accepted-1-1", "accepted-1-0", "accepted-11-0"} {
		if err := ana.Audit.AppendAudit(b.ctx(), kind, []byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := shuf.Audit.AppendAudit(b.ctx(), "accepted-1-0", []byte("its own")); err != nil {
		t.Fatal(err)
	}
	var said []byte
	err := shuf.Audit.Said(b.ctx(), bus.Analyzer, "accepted-1-0", func(payload []byte) error {
		said = append(said, payload...)
		return nil
	})
	if err != nil || string(said) != "\x00\x02" {
		t.Errorf("%q, %v", said, err)
	}
	stop := errors.New("stop")
	if err := shuf.Audit.Said(b.ctx(), bus.Analyzer, "accepted-1-0", func([]byte) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
	if err := shuf.Audit.Said(b.ctx(), bus.Analyzer, "*", nil); !errors.Is(err, bus.ErrBadName) {
		t.Error(err)
	}
}
