package ingress

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/semaphore"
)

// bodies bounds the memory of the bodies that are being read, or are on their way to the broker, and the time that one
// may take to come.
type bodies struct {
	room *semaphore.Weighted // bytes
	time time.Duration       // for a body to come
}

// read reads a body of exactly this many bytes. A body that says another length is refused before a byte of it is read
// or room for it is made. release gives its memory back; call it once nothing holds the body any more. No more than one
// request may be waited for in a connection's buffers: where there is no room the client is told so at once.
func (b *bodies) read(w http.ResponseWriter, r *http.Request, size int) (body []byte, release func(), err error) {
	switch n := r.ContentLength; {
	case n < 0:
		return nil, nil, wrong(http.StatusLengthRequired, Malformed, "the header Content-Length is missing")
	case n > int64(size):
		return nil, nil, wrong(http.StatusRequestEntityTooLarge, WrongSize, "%d bytes, must have %d", n, size)
	case n < int64(size):
		return nil, nil, wrong(http.StatusBadRequest, WrongSize, "%d bytes, must have %d", n, size)
	}
	if !b.room.TryAcquire(int64(size)) {
		return nil, nil, later(time.Second, Busy, "as many requests are under way as there is memory for")
	}
	release = func() { b.room.Release(int64(size)) }
	control := http.NewResponseController(w)
	if control.SetReadDeadline(time.Now().Add(b.time)) != nil { // a server that cannot would wait for ever
		release()
		return nil, nil, later(time.Second, Busy, "the body cannot be read")
	}
	body = make([]byte, size)
	if _, err := io.ReadFull(r.Body, body); err != nil {
		release()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, nil, wrong(http.StatusRequestTimeout, Slow, "the body did not come within %s", b.time)
		}
		return nil, nil, wrong(http.StatusBadRequest, Malformed, "the body ended before its length")
	}
	_ = control.SetReadDeadline(time.Time{}) // of the connection, whose next request has times of its own
	return body, release, nil
}

// detached is a context that outlives the client: what was read whole is handed on, whether or not someone still waits
// for the answer.
func detached(r *http.Request, within time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.Context()), within)
}
