package ingress

import (
	"errors"
	"net/http"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// enrolTime is how long a shuffler may take to answer.
const enrolTime = 10 * time.Second

// enrol hands a sealed request to a shuffler, once: whoever gets no reply asks again with the same wish, and knows
// better than an ingress whether a second request may follow the first.
func (s *Ingress) enrol(w http.ResponseWriter, r *http.Request) error {
	if !s.enrolments.TryAcquire(1) {
		return later(time.Second, Busy, "as many requests wait for the shuffler as may")
	}
	defer s.enrolments.Release(1)
	request, release, err := s.bodies.read(w, r, wire.SealedRequestSize)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := detached(r, enrolTime)
	defer cancel()
	reply, err := s.c.Bus.EnrolOnce(ctx, request)
	switch {
	case errors.Is(err, bus.ErrNoShuffler):
		return later(5*time.Second, Unavailable, "no shuffler answers now; none was asked")
	case err != nil:
		return later(time.Second, Unknown, "no reply came: ask again with the same wish")
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", binaryType)
	_, _ = w.Write(reply) // the client asks again if it went away
	return nil
}
