package bus_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
)

// A single question is heard at most once, and the asker knows where no shuffler can have heard it.
func TestSingleQuestionIsHeardAtMostOnce(t *testing.T) {
	b := newBroker(t)
	dev, shuf := b.connect(bus.Randomizer), b.connect(bus.Shuffler)
	if _, err := dev.Enrolment.EnrolOnce(b.ctx(), []byte("x")); !errors.Is(err, bus.ErrNoShuffler) ||
		errors.Is(err, bus.ErrUnknown) {
		t.Errorf("no shuffler serves: %v", err)
	}
	if _, err := dev.Enrolment.EnrolOnce(b.ctx(), make([]byte, bus.MaxMessage+1)); !errors.Is(err, bus.ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	var heard atomic.Int32
	unanswered, giveUp := context.WithCancel(b.ctx())
	defer giveUp()
	ctx, stop := context.WithCancel(b.ctx())
	defer stop()
	go func() {
		_ = shuf.Enrolment.ServeEnrol(ctx, 2, func(_ context.Context, request []byte) ([]byte, error) {
			if string(request) == "answer" {
				return []byte("answered"), nil
			}
			heard.Add(1)
			giveUp()
			return nil, errors.New("no answer")
		})
	}()
	deadline := time.Now().Add(testbed.Patience)
	for {
		reply, err := dev.Enrolment.EnrolOnce(b.ctx(), []byte("answer"))
		if err == nil && string(reply) == "answered" {
			break
		}
		if !errors.Is(err, bus.ErrNoShuffler) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if _, err := dev.Enrolment.EnrolOnce(unanswered, []byte("x")); !errors.Is(err, bus.ErrUnknown) ||
		errors.Is(err, bus.ErrNoShuffler) {
		t.Errorf("no answer: %v", err)
	}
	if n := heard.Load(); n != 1 {
		t.Errorf("one question was heard %d times", n)
	}
	b.server.Stop()
	if _, err := dev.Enrolment.EnrolOnce(b.ctx(), []byte("x")); !errors.Is(err, bus.ErrNoShuffler) &&
		!errors.Is(err, bus.ErrUnknown) {
		t.Errorf("no broker: %v", err)
	}
	testbed.Eventually(t, "without a broker", func() bool { return !dev.Connected() })
	if _, err := dev.Enrolment.EnrolOnce(b.ctx(), []byte("x")); !errors.Is(err, bus.ErrNoShuffler) {
		t.Errorf("known to be without a broker: %v", err)
	}
}
