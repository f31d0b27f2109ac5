package ingress

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/riffle-dp/riffle/pkg/problem"
	"github.com/riffle-dp/riffle/pkg/wire"
)

const (
	// DefaultTimeout bounds a request of a client that New makes: it is longer than an ingress lets requests wait.
	DefaultTimeout = time.Minute
	// LongestWait is how long an ingress lets a request wait for the next announcement.
	LongestWait = 30 * time.Second
	// maxProblem bounds what is read of a refusal.
	maxProblem = 1 << 16
	// longestAfter bounds Refusal.After.
	longestAfter = time.Hour
)

// ErrUnreachable says that no whole answer came: the ingress may have done what it was asked, or not.
var ErrUnreachable = errors.New("ingress: no answer")

// Client calls one ingress, or several behind one name. It is safe for concurrent use.
type Client struct {
	base *url.URL
	http *http.Client
}

// New makes a client of the ingress with this address, for instance "https://riffle.example". via may be nil: then the
// system's authorities vouch for the ingress, a request may take DefaultTimeout, and redirections are not followed.
func New(base string, via *http.Client) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("ingress: the address %q must begin with https:// or http:// and name a host", base)
	}
	if via == nil {
		via = &http.Client{
			Timeout:       DefaultTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return &Client{u, via}, nil
}

// Refusal is an answer that is not what was asked for.
type Refusal struct {
	Status int           // of HTTP
	Reason string        // a word of the ingress's description, such as "late"; empty: the answer is not an ingress's
	Detail string        // a sentence for people
	After  time.Duration // how long the ingress asks to be left alone, at most an hour; 0: it does not say
}

// Error says what was answered.
func (r *Refusal) Error() string {
	if r.Reason == "" {
		return fmt.Sprintf("ingress: status %d, from something that is no ingress", r.Status)
	}
	return fmt.Sprintf("ingress: %s: %s", r.Reason, r.Detail)
}

// Final reports whether the same request will never be taken. It is false for what passes, and for what something
// before the ingress answered.
func (r *Refusal) Final() bool {
	switch r.Status {
	case http.StatusNotFound, http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return r.Reason != "" && r.Status >= 400 && r.Status < 500
}

// Announcements are the signed announcements of the chain after the one of this epoch and round, in its order, at most
// wire.MaxFrames: there may be more after the last one. After 0.0 the chain begins. If there is none yet the ingress
// waits so long for one, in whole seconds and at most LongestWait; none is then no error. The error is a *Refusal,
// wraps ErrUnreachable, or is of wire.ReadFrames.
func (c *Client) Announcements(ctx context.Context, epoch uint64, round uint32, wait time.Duration) (
	signed [][]byte, err error,
) {
	to := c.base.JoinPath("v1", "announcements")
	to.RawQuery = fmt.Sprintf("after=%d.%d&wait=%d", epoch, round, min(max(wait, 0), LongestWait)/time.Second)
	err = c.do(ctx, http.MethodGet, to, nil, nil, func(body io.Reader) error {
		return wire.ReadFrames(body, func(one []byte) error { signed = append(signed, one); return nil })
	})
	if err != nil {
		return nil, err
	}
	return signed, nil
}

// Announcement is one signed announcement. Errors are those of Announcements.
func (c *Client) Announcement(ctx context.Context, epoch uint64, round uint32) (signed []byte, err error) {
	return c.bytes(ctx, http.MethodGet, c.base.JoinPath("v1", "announcements", strconv.FormatUint(epoch, 10),
		strconv.FormatUint(uint64(round), 10)), nil, wire.MaxStatement)
}

// Keys are the shuffler's signed keys. Errors are those of Announcements.
func (c *Client) Keys(ctx context.Context) (signed []byte, err error) {
	return c.bytes(ctx, http.MethodGet, c.base.JoinPath("v1", "keys"), nil, wire.MaxStatement)
}

// Enrol hands the shuffler a sealed request, which Device.Enrol made, and returns its sealed reply, for Device.Answer.
// After any error the shuffler may have heard it: another request must have the same wish, as Device.Enrol's has.
// Errors are those of Announcements.
func (c *Client) Enrol(ctx context.Context, request []byte) (reply []byte, err error) {
	return c.bytes(ctx, http.MethodPost, c.base.JoinPath("v1", "enrolments"), request, wire.SealedReplySize)
}

// Report is a sealed report, which Device.Report or Device.Deposit made, and where it belongs: the enrolment's answer
// has slot and ticket.
type Report struct {
	Epoch  uint64
	Round  uint32
	Slot   uint32
	Ticket wire.Ticket
	Body   []byte
}

// Report hands a report in. Without an error the broker has stored it: once, however often it is sent. Errors are those
// of Announcements; but for a *Refusal that is Final, send the same bytes again.
func (c *Client) Report(ctx context.Context, r Report) error {
	digest := sha256.Sum256(r.Body)
	to := c.base.JoinPath("v1", "reports", fmt.Sprintf("%d.%d", r.Epoch, r.Round), hex.EncodeToString(digest[:]))
	header := http.Header{"Riffle-Ticket": {wire.TicketHeader(r.Ticket, r.Slot)}}
	return c.do(ctx, http.MethodPut, to, r.Body, header, nil)
}

// bytes is an answer's body of at most this many.
func (c *Client) bytes(ctx context.Context, method string, to *url.URL, body []byte, most int64) (b []byte, err error) {
	err = c.do(ctx, method, to, body, nil, func(answer io.Reader) (err error) {
		if b, err = io.ReadAll(io.LimitReader(answer, most+1)); err != nil {
			return fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
		if int64(len(b)) > most {
			return fmt.Errorf("%w: an answer of more than %d bytes: is this an ingress?", ErrUnreachable, most)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// do makes a request. read reads the answer, which is 200 with a body; without it the answer must be 204.
func (c *Client) do(ctx context.Context, method string, to *url.URL, body []byte, header http.Header,
	read func(io.Reader) error,
) error {
	r, err := http.NewRequestWithContext(ctx, method, to.String(), bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	for name, values := range header {
		r.Header[name] = values
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/octet-stream")
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	defer func() { _ = answer.Body.Close() }() // it was read, or is of no use
	switch {
	case read != nil && answer.StatusCode == http.StatusOK:
		return read(answer.Body)
	case read == nil && answer.StatusCode == http.StatusNoContent:
		return nil
	}
	return refusal(answer)
}

// refusal is what an answer says.
func refusal(answer *http.Response) *Refusal {
	var d problem.Details
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxProblem))
	if err != nil || answer.Header.Get("Content-Type") != problem.ContentType || json.Unmarshal(text, &d) != nil {
		d = problem.Details{}
	}
	seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After")) // a date, or nothing, is no pause
	return &Refusal{answer.StatusCode, d.Reason, d.Detail,
		time.Duration(max(0, min(seconds, int(longestAfter/time.Second)))) * time.Second}
}
