package access

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/riffle-dp/riffle/internal/bus"
)

// Client makes attempts with one user's credentials. It speaks NATS itself: what a role's own client does not do, a
// thief of its credentials can.
type Client struct {
	nc   *nats.Conn
	user string

	mu     sync.Mutex
	denied map[string]chan struct{} // closed when the broker refuses the subject
}

// Connect connects with the credentials and the TLS of these options.
func Connect(o bus.Options) (*Client, error) {
	pair, err := nkeys.FromSeed(o.Seed)
	if err != nil {
		return nil, err
	}
	c := &Client{denied: map[string]chan struct{}{}}
	if c.user, err = pair.PublicKey(); err != nil {
		return nil, err
	}
	options := []nats.Option{
		nats.Nkey(c.user, pair.Sign), nats.CustomInboxPrefix(bus.Inbox(o.Role, c.user)), nats.ErrorHandler(c.onError),
	}
	if t := o.TLS; t != nil {
		options = append(options, nats.Secure(&tls.Config{MinVersion: tls.VersionTLS13, ServerName: t.ServerName}),
			nats.RootCAs(t.CAFile))
	}
	c.nc, err = nats.Connect(o.URL, options...)
	return c, err
}

// Close ends the connection.
func (c *Client) Close() { c.nc.Close() }

// deniedSubject finds the subject in the broker's refusals.
var deniedSubject = regexp.MustCompile(`(?:Publish|Subscription) to "([^"]+)"`)

// onError hears the broker's refusals, which do not come as answers.
func (c *Client) onError(_ *nats.Conn, _ *nats.Subscription, err error) {
	m := deniedSubject.FindStringSubmatch(err.Error())
	if !errors.Is(err, nats.ErrPermissionViolation) || m == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if refused, waiting := c.denied[m[1]]; waiting {
		close(refused)
		delete(c.denied, m[1])
	}
}

// watch returns a channel that is closed when the broker refuses the subject.
func (c *Client) watch(subject string) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	refused := make(chan struct{})
	c.denied[subject] = refused
	return refused
}

// Outcome is what came of an attempt.
type Outcome struct {
	Reached bool   // it was taken: the role can do this
	Reason  string // the refusal's, or what answered
}

// Try makes one attempt.
func (c *Client) Try(ctx context.Context, a Attempt) (Outcome, error) {
	var reasons []string
	for _, subject := range a.Subjects {
		out, err := c.trySubject(ctx, a, strings.ReplaceAll(subject, ownKey, c.user))
		if err != nil || out.Reached {
			return out, err
		}
		reasons = append(reasons, out.Reason)
	}
	return Outcome{Reason: strings.Join(reasons, "; ")}, nil
}

const (
	answerTime = 2 * time.Second
	noRight    = "no permission"
	nobodys    = "riffle.nobodys." // subjects that no role may hear
)

func (c *Client) trySubject(ctx context.Context, a Attempt, subject string) (Outcome, error) {
	refused := c.watch(subject)
	if a.Listen || a.Quiet {
		return c.trySilently(ctx, a, subject, refused)
	}
	limited, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	go func() {
		select {
		case <-refused:
			cancel()
		case <-limited.Done():
		}
	}()
	reply, err := c.nc.RequestWithContext(limited, subject, []byte(a.Body))
	switch {
	case closed(refused):
		return Outcome{Reason: noRight}, nil
	case errors.Is(err, nats.ErrNoResponders):
		return Outcome{Reason: "no one there"}, nil
	case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		return Outcome{Reason: "no answer"}, nil
	case err != nil:
		return Outcome{}, fmt.Errorf("try %s: %w", subject, err)
	}
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	if json.Unmarshal(reply.Data, &answer) == nil && answer.Error != nil &&
		answer.Error.ErrorCode == jetstream.JSErrCodeJetStreamNotEnabledForAccount {
		return Outcome{Reason: "no streams in this account"}, nil
	}
	return Outcome{Reached: true, Reason: "answered"}, nil
}

// trySilently makes an attempt that has no answer but a refusal.
func (c *Client) trySilently(ctx context.Context, a Attempt, subject string, refused <-chan struct{}) (Outcome, error) {
	var sub *nats.Subscription
	var err error
	switch {
	case a.Listen && a.Queue != "":
		sub, err = c.nc.QueueSubscribeSync(subject, a.Queue)
	case a.Listen:
		sub, err = c.nc.SubscribeSync(subject)
	default:
		err = c.nc.Publish(subject, []byte(a.Body))
	}
	if sub != nil {
		defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection
	}
	// Refusals are told one after the other. So that this one is told, if there is one, by the time that what no role
	// may do is refused, however busy the machine is.
	var fence *nats.Subscription
	forbidden := nobodys + nats.NewInbox()
	behind := c.watch(forbidden)
	if err == nil {
		fence, err = c.nc.SubscribeSync(forbidden)
	}
	if fence != nil {
		defer func() { _ = fence.Unsubscribe() }()
	}
	if err != nil {
		return Outcome{}, fmt.Errorf("try %s: %w", subject, err)
	}
	select {
	case <-behind:
	case <-ctx.Done():
		return Outcome{}, ctx.Err()
	}
	if closed(refused) {
		return Outcome{Reason: noRight}, nil
	}
	return Outcome{Reached: true, Reason: "not refused"}, nil
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
