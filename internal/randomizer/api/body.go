package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/feature"
)

// What an app sends is read after its device is enrolled, in bounded time and memory. A body that breaks a bound is
// refused, and its device reports the null record: who takes part never depends on a body, and no device waits for
// enrolment because of another's.
const (
	// EnrolTime bounds how long a decision waits for the shuffler, before its body is read. Past it the person is not
	// sampled, which says nothing about the record: nothing of it was looked at yet.
	EnrolTime = 5 * time.Second
	// bodyTime is from a request's arrival to the last byte of its body: the longest wait for the shuffler, and as long
	// again for a client that sends its body only when it is asked for it.
	bodyTime = 2 * EnrolTime
	// maxArms bounds the arms of one decision.
	maxArms = 1024
	// numberBytes is what one number of an arm may take in JSON: the 24 characters of a float64, a comma, and
	// indentation.
	numberBytes = 40
	// spareBytes is what a decision may hold besides its numbers.
	spareBytes = 1 << 10
	// maxDecision bounds the bytes of a decision in any dimension.
	maxDecision = 4 << 20
	// maxFeatures bounds the bytes of a decision about features.
	maxFeatures = 512 << 10
	// maxReward bounds the bytes of a reward.
	maxReward = 4 << 10
	// bytesInFlight bounds the bytes of all bodies that are being read or decided about. A byte takes at most some ten
	// of memory.
	bytesInFlight = 4 * maxDecision
	// maxBodies bounds how many bodies may be read or waited for.
	maxBodies = 1024
	// MaxEnrolling bounds how many requests may wait for enrolment: the host refuses more with ErrBusy.
	MaxEnrolling = 1024
)

// Errors of bodies. Each leaves the decision without arms, or the reward untold.
var (
	// ErrBodyTooLarge says that a body has more bytes, or more arms, than a decision needs.
	ErrBodyTooLarge = errors.New("the body is too large")
	// ErrBodyTooSlow says that a body did not arrive in time.
	ErrBodyTooSlow = errors.New("the body did not arrive in time")
	// ErrBusy says that too many other requests are being served.
	ErrBusy = errors.New("too many other requests are being served")
)

// Bounds are on all bodies together.
type Bounds struct {
	Time     time.Duration // from a request's arrival to the last byte of its body
	Bytes    int64         // being read or decided about
	Requests int64         // whose bodies are read or waited for
}

// DefaultBounds are those of a deployment.
func DefaultBounds() Bounds { return Bounds{bodyTime, bytesInFlight, maxBodies} }

// bodies admits what apps send.
type bodies struct {
	time     time.Duration
	bytes    *semaphore.Weighted
	requests *semaphore.Weighted
}

func newBodies(b Bounds) *bodies {
	return &bodies{b.Time, semaphore.NewWeighted(b.Bytes), semaphore.NewWeighted(b.Requests)}
}

// open admits a request's body of at most limit bytes, until the given time; done gives its room back, once what was
// made of it is forgotten. A byte takes the room of weight bytes, from 1. Reading it fails as bodyError says.
func (b *bodies) open(w http.ResponseWriter, r *http.Request, limit, weight int64, by time.Time) (body io.Reader,
	done func(), err error) {
	size := limit
	if r.ContentLength > limit {
		return nil, nil, fmt.Errorf("%w: %d bytes, at most %d", ErrBodyTooLarge, r.ContentLength, limit)
	}
	if r.ContentLength >= 0 {
		size = r.ContentLength
	}
	size = min(maxDecision, size*weight)
	if !b.requests.TryAcquire(1) {
		return nil, nil, ErrBusy
	}
	ctx, cancel := context.WithDeadline(r.Context(), by)
	defer cancel()
	if !b.bytes.TryAcquire(size) && b.bytes.Acquire(ctx, size) != nil {
		b.requests.Release(1)
		return nil, nil, ErrBusy
	}
	return http.MaxBytesReader(w, r.Body, limit), func() { b.bytes.Release(size); b.requests.Release(1) }, nil
}

// reading reads a decision's body, once; forget gives its room back.
func (a *API) reading(w http.ResponseWriter, r *http.Request, by time.Time) (
	arms func(*device.Announced) (Arms, error), forget func(),
) {
	done := func() {}
	return func(of *device.Announced) (Arms, error) {
		limit, weight := decisionRoom(of.Policy.Dimension, of.Features)
		body, opened, err := a.bodies.open(w, r, limit, weight, by)
		if err != nil {
			return Arms{}, err
		}
		done = opened
		return readDecision(body, of.Policy.Dimension, of.Features)
	}, func() { done() }
}

// spoilt counts a request that was refused for its body.
func spoilt(why outcome.Reason, count *atomic.Int64) {
	switch why {
	case BadArms, BadRequest, BodyTooLarge, BodyTooSlow:
		count.Add(1)
	}
}

// badBody is what is wrong with a body: a sentence that holds nothing of it.
type badBody string

func (b badBody) Error() string { return string(b) }

// readStruct reads one JSON object without unknown fields and nothing else.
func readStruct(body io.Reader, into any) error {
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return bodyError(err)
	}
	return bodyError(readEnd(d))
}

// readEnd makes sure that nothing comes any more.
func readEnd(d *json.Decoder) error {
	switch _, err := d.Token(); {
	case errors.Is(err, io.EOF):
		return nil
	case broken(err):
		return err
	}
	return badBody("more than one JSON value, or something behind it")
}

// broken reports whether reading failed rather than what was read.
func broken(err error) bool {
	var large *http.MaxBytesError
	var network net.Error
	return errors.As(err, &large) || errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF)
}

// bodyError is what an app is told of a body that cannot be read. It names positions and fields, never values.
func bodyError(err error) error {
	var bad badBody
	var large *http.MaxBytesError
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil, errors.Is(err, ErrBodyTooLarge), errors.As(err, &bad), errors.Is(err, feature.ErrFeatures):
		return err
	case errors.As(err, &large):
		return fmt.Errorf("%w: more than %d bytes", ErrBodyTooLarge, large.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ErrBodyTooSlow
	case errors.As(err, &syntax):
		return badBody(fmt.Sprintf("not JSON at byte %d", syntax.Offset))
	case errors.As(err, &kind) && kind.Field == "":
		return errArms
	case errors.As(err, &kind):
		return badBody(fmt.Sprintf("field %q must be a %s", kind.Field, kind.Type))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return badBody("the JSON ends too early")
	}
	return badBody("not the JSON that is expected: an unknown field?") // the library's own text may name values
}
