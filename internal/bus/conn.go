package bus

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
	"github.com/rs/zerolog"
)

const (
	attemptTime = 5 * time.Second // one try of one request, at first
	// longestTry is what a try gets after tries that were too short, each twice as long as the one before: an answer of
	// MaxPayload comes within it at 0.9 Mbit/s. With a fixed time a slow network would bring no such answer ever.
	longestTry  = 80 * time.Second
	firstPause  = 50 * time.Millisecond  // between tries, doubling
	maxPause    = 2 * time.Second        //
	dialTime    = 5 * time.Second        // one try to connect
	redialPause = 200 * time.Millisecond // between tries to connect again
	redialRange = 300 * time.Millisecond // random addition, so that devices do not all come back at once
)

// DefaultURL is where a broker listens that was started by hand on the same machine.
const DefaultURL = "nats://127.0.0.1:4222"

// Options says how to connect.
type Options struct {
	URL    string // nats://, tls:// or wss://host:port; several, separated by commas
	Role   Role   // whose rights the key has
	Seed   []byte // the role's seed
	TLS    *TLS   // nil: clear text, or what a tls:// URL asks for with the system's authorities
	Name   string // shown to the broker's operator; no personal data
	Logger *zerolog.Logger
}

// TLS says how the broker proves who it is, and the client to it where the broker asks.
type TLS struct {
	CAFile            string // authorities that may vouch for the broker; empty: the system's
	CertFile, KeyFile string // the client's own certificate, where the broker wants one
	ServerName        string // name expected in the broker's certificate; empty: the URL's host
}

// Conn is a role's connection to the broker, with the handles of what it can do there. It reconnects for ever and may
// be used from many goroutines. What is outside the role's rights returns ErrForbidden.
type Conn struct {
	Streams
	link *link
}

// link is the connection itself.
type link struct {
	role Role
	user string // its public key: its name at the broker
	nc   *nats.Conn
	js   jetstream.JetStream
	log  zerolog.Logger

	attempt, pause time.Duration // of a call's first try, and after it: attemptTime and firstPause, but in tests

	repeats   atomic.Uint64 // requests made again
	connected atomic.Bool   // what nats.go says last; asking it would wait for as long as it dials
	closed    atomic.Bool
	waiting   waitingCalls

	mu         sync.Mutex
	denied     map[string]map[*context.CancelCauseFunc]struct{} // waiting for an answer on this subject
	redials    map[chan struct{}]struct{}                       // told of every reconnect
	connection context.Context                                  // ends with errLost when the connection is lost
	lost       context.CancelCauseFunc
}

// newLink is a link that is not connected.
func newLink(role Role, user string) *link {
	c := &link{
		role: role, user: user, log: zerolog.Nop(), attempt: attemptTime, pause: firstPause,
		denied:  map[string]map[*context.CancelCauseFunc]struct{}{},
		redials: map[chan struct{}]struct{}{},
	}
	c.connection, c.lost = context.WithCancelCause(context.Background())
	return c
}

// Connect connects, trying until the context ends; afterwards the connection lives until Close, whatever happens to
// the broker.
//
// Errors: ErrCredentials at once, where the key is unusable or the broker does not know it; otherwise the context's
// error together with why the last try failed. After an error there is no connection.
func Connect(ctx context.Context, o Options) (*Conn, error) {
	if !o.Role.valid() {
		return nil, fmt.Errorf("bus: unknown role %q; known are %v", o.Role, Roles())
	}
	pair, err := userPair(o.Seed)
	if err != nil {
		return nil, err
	}
	public, err := pair.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrCredentials, err)
	}
	secure, err := o.TLS.config()
	if err != nil {
		return nil, err
	}

	c := newLink(o.Role, public)
	if o.Logger != nil {
		c.log = *o.Logger
	}
	options := []nats.Option{
		nats.Name(o.Name),
		nats.Nkey(public, pair.Sign),
		nats.CustomInboxPrefix(Inbox(o.Role, public)),
		nats.MaxReconnects(-1),
		// a broker that is being reconfigured must not end the process's connection for good
		nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(redialPause),
		nats.ReconnectJitter(redialRange, redialRange),
		nats.ReconnectBufSize(-1), // nothing is sent later without the caller: methods retry by themselves
		nats.Timeout(dialTime),
		nats.PingInterval(10 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.ErrorHandler(c.onError),
		nats.DisconnectErrHandler(c.onDisconnect),
		nats.ReconnectHandler(c.onReconnect),
		nats.ClosedHandler(func(*nats.Conn) { c.closed.Store(true); c.connected.Store(false) }),
	}
	if secure != nil {
		options = append(options, nats.Secure(secure))
	}
	pause := firstPause
	for {
		c.nc, err = nats.Connect(o.URL, options...)
		if err == nil {
			break
		}
		if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) {
			return nil, fmt.Errorf("%w: the broker does not know this %s key (%s)", ErrCredentials, o.Role, public)
		}
		if ctx.Err() == nil && pause == maxPause {
			c.log.Warn().Err(err).Msg("broker not reached, trying on")
		}
		if !sleep(ctx, &pause) {
			return nil, fmt.Errorf("bus: broker not reached: %w (%v)", context.Cause(ctx), err)
		}
	}
	c.connected.Store(c.nc.IsConnected())
	if o.Role == Admin {
		c.js, err = jetstream.New(c.nc)
	} else {
		c.js, err = jetstream.NewWithAPIPrefix(c.nc, APILocal)
	}
	if err != nil {
		c.nc.Close()
		return nil, fmt.Errorf("bus: %w", err)
	}
	return &Conn{Over(c), c}, nil
}

func userPair(seed []byte) (nkeys.KeyPair, error) {
	pair, err := nkeys.FromSeed(seed)
	if err != nil {
		return nil, fmt.Errorf("%w: not an nkey seed", ErrCredentials)
	}
	public, err := pair.PublicKey()
	if err != nil || !nkeys.IsValidPublicUserKey(public) {
		return nil, fmt.Errorf("%w: the seed is not a user's (SU...)", ErrCredentials)
	}
	return pair, nil
}

func (t *TLS) config() (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS13, ServerName: t.ServerName}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("bus: TLS authorities: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("bus: TLS authorities: no certificate in %s", t.CAFile)
		}
	}
	if t.CertFile != "" || t.KeyFile != "" {
		cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("bus: TLS client certificate: %w", err)
		}
		cfg.Certificates = []tls.Certificate{cert}
	}
	return cfg, nil
}

// Role implements Transport.
func (c *link) Role() Role { return c.role }

// User implements Transport.
func (c *link) User() string { return c.user }

// Log implements Transport.
func (c *link) Log() *zerolog.Logger { return &c.log }

// Connected reports whether there is a connection to the broker, at once and without asking it: it may be frozen.
func (c *Conn) Connected() bool { return c.link.connected.Load() }

// Traffic is what went over the connection so far.
type Traffic struct {
	MessagesIn, MessagesOut, BytesIn, BytesOut, Reconnects uint64
	// requests made again because no answer came, or no final one
	Repeats uint64
}

// Traffic implements Transport.
func (c *link) Traffic() Traffic {
	s := c.nc.Stats()
	return Traffic{MessagesIn: s.InMsgs, MessagesOut: s.OutMsgs, BytesIn: s.InBytes, BytesOut: s.OutBytes,
		Reconnects: s.Reconnects, Repeats: c.repeats.Load()}
}

// Close sends what is waiting (acknowledgements) and ends the connection. Running methods return ErrClosed or
// ErrUnknown.
func (c *Conn) Close() {
	c.link.closed.Store(true)
	_ = c.link.nc.FlushTimeout(time.Second) // best effort: an acknowledgement lost here is a redelivery later
	c.link.nc.Close()
}

// deniedSubject finds the subject in the broker's refusals.
var deniedSubject = regexp.MustCompile(`(?:Publish|Subscription) to "([^"]+)"`)

// onError hears the broker's refusals, which do not come as answers, and hands them to the calls that wait.
func (c *link) onError(_ *nats.Conn, _ *nats.Subscription, err error) {
	if m := deniedSubject.FindStringSubmatch(err.Error()); errors.Is(err, nats.ErrPermissionViolation) && m != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		for cancel := range c.denied[m[1]] {
			(*cancel)(fmt.Errorf("%w: %s may not use %s", ErrForbidden, c.role, m[1]))
		}
		return
	}
	c.log.Warn().Err(err).Msg("broker error")
}

// guard returns a context that ends with ErrForbidden as its cause when the broker refuses the subject.
func (c *link) guard(ctx context.Context, subject string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	key := &cancel
	c.mu.Lock()
	if c.denied[subject] == nil {
		c.denied[subject] = map[*context.CancelCauseFunc]struct{}{}
	}
	c.denied[subject][key] = struct{}{}
	c.mu.Unlock()
	return ctx, func() {
		c.mu.Lock()
		delete(c.denied[subject], key)
		if len(c.denied[subject]) == 0 {
			delete(c.denied, subject)
		}
		c.mu.Unlock()
		cancel(nil)
	}
}

// errLost ends a try whose answer cannot come any more, because the connection that it was asked on is gone.
var errLost = errors.New("bus: connection lost")

func (c *link) onDisconnect(_ *nats.Conn, err error) {
	if err != nil {
		c.log.Warn().Err(err).Msg("broker connection lost")
	}
	c.connected.Store(false)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost(errLost)
	c.connection, c.lost = context.WithCancelCause(context.Background())
}

func (c *link) onReconnect(*nats.Conn) {
	c.connected.Store(true)
	c.log.Info().Msg("broker connection restored")
	c.mu.Lock()
	defer c.mu.Unlock()
	for ch := range c.redials {
		tell(ch)
	}
}

// sleep waits a pause and doubles it. It is false when the context ended.
func sleep(ctx context.Context, pause *time.Duration) bool {
	t := time.NewTimer(*pause)
	defer t.Stop()
	*pause = min(2**pause, maxPause)
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return ctx.Err() == nil
	}
}
