package randomizer

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/riffle-dp/riffle/pkg/wire"
)

// recording is a broker whose every request for enrolment and every reply the test sees.
type recording struct {
	Broker
	mu  sync.Mutex
	all [][2][]byte
}

func (r *recording) EnrolOnce(ctx context.Context, request []byte) ([]byte, error) {
	reply, err := r.Broker.EnrolOnce(ctx, request)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, [2][]byte{request, reply})
	return reply, err
}

// Whatever devices ask, alone or together, and whatever they are told, the broker sees requests of one size and replies
// of one size, in which there is neither the host's key nor its credential nor a part of the request.
func TestTheBrokerSeesNoDeviceNumber(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	b := &recording{Broker: s.config.Bus}
	s.config.Bus = b
	s.start()
	a := s.unhurried(40)
	s.open(a)
	var signed [][]byte
	s.mu.Lock()
	s.answer = func(e wire.Enrolment) *wire.EnrolReply {
		signed = append(signed, e.Request.Announcement, e.HostKey[:])
		if len(signed) > 2*20 {
			return &wire.EnrolReply{Refusal: wire.RefusalSponsorShare}
		}
		return nil
	}
	s.mu.Unlock()
	var deciding sync.WaitGroup
	for i := range 30 {
		deciding.Go(func() { s.decide(fmt.Sprint("p", i), twoArms) })
	}
	deciding.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(b.all) == 0 || len(signed) != 2*30 {
		t.Fatalf("%d requests of %d devices", len(b.all), len(signed)/2)
	}
	for _, m := range b.all {
		if len(m[0]) != wire.SealedRequestSize || len(m[1]) != wire.SealedReplySize {
			t.Errorf("a request of %d bytes is answered with %d", len(m[0]), len(m[1]))
		}
		for _, part := range append([][]byte{s.config.Credential[:40], s.Shuffler.Public()}, signed...) {
			if bytes.Contains(m[0], part) || bytes.Contains(m[1], part) {
				t.Fatal("what the broker sees has a part of what is asked")
			}
		}
	}
}
