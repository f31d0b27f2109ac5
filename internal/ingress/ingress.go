// Package ingress is the way in over HTTPS for devices that are no users of the broker: phones and web pages. It is in
// the shuffler's trust domain, and opens nothing.
//
// # What it guarantees
//
// A report is answered with 204 once the broker acknowledged that one is stored, and synced where the broker syncs
// always. What passes is of exactly the size that the announcement in force gives reports, and came with the ticket of
// its slot. Memory is bounded, whatever comes: by the body bytes that may be under way, the connections, and the
// cohort's slots.
//
// # Tickets
//
// A ticket is good for one report in each round. The broker uses it up: the report's message id follows from ticket,
// epoch and round, and the broker keeps one message of an id within its window (bus.DefaultDedupWindow), whichever
// instance hands it in. A process remembers besides what it stored in the round under way, and so answers a repetition
// with 204, and another report with 409, without asking the broker; after the window too. That memory is no state:
// another instance, or a new process, hands the second report in, and
//
//   - within the window the broker drops it and says that the ticket's report is stored: 204. If it was another report
//     than the first, only whoever held the ticket can have sent both, and the first counts, as it would have done;
//   - after the window the broker stores it, and the shuffler refuses it: as a copy, or because its slot has a report.
//
// So a ticket is good for at most one stored report per process and window, and for one that counts. What the broker
// has to keep in vain is bounded by that and by the rates.
//
// # What it learns
//
// Addresses, times, sizes and tickets. With the shuffler it tells which address enrolled and reported; with the broker
// and the analyzer no more than either without it. It writes none of it down: there is no access log, and its metrics
// count sizes and reasons.
//
// # What it does not do
//
// It authenticates nobody, since every page may call it: what is in a request is sealed, and signed inside. It keeps
// nothing across a restart.
package ingress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Broker is what an ingress does at the broker. Over makes one; the handles of package bus document each method. Safe
// for concurrent use.
type Broker interface {
	WatchAnnouncements(ctx context.Context, handler func(bus.Announcement) error) error
	WatchKeys(ctx context.Context, handler func(role bus.Role, payload []byte) error) error
	EnrolOnce(ctx context.Context, request []byte) (reply []byte, err error)
	PublishTicketed(ctx context.Context, reports []bus.Ticketed) []error
}

// Over are the handles of a connection that an ingress works with.
func Over(s bus.Streams) Broker {
	return struct {
		*bus.AnnouncementStream
		*bus.KeyStream
		*bus.Enrolment
		*bus.ReportStream
	}{s.Announcements, s.Keys, s.Enrolment, s.Reports}
}

// Config is what an ingress needs.
type Config struct {
	Deployment string
	Analyzer   []byte   // Ed25519 public key that announcements are signed with
	Shuffler   []byte   // Ed25519 public key that key sets are signed with
	Ticket     [32]byte // what the shuffler makes tickets with
	Limits     Limits
	TLS        *tls.Config    // nil: plain HTTP
	Proxies    []netip.Prefix // whose header X-Forwarded-For counts
	Relays     []netip.Prefix // who send for many people
	Bus        Broker
	Clock      role.Clock // nil: the system's. Sockets keep to the system's
	Log        zerolog.Logger
	Keys       *role.Condition   // met while the shuffler's keys are known; may be nil
	Reports    *Account          // may be nil
	Enrolments *Account          // may be nil
	Batched    func(reports int) // told of each batch that the broker stored; may be nil
}

// Limits bound what a process takes.
type Limits struct {
	Memory      int64         // bytes of bodies under way
	Connections int           // open at a time
	Body        time.Duration // for a body to come
	Reports     float64       // a second from one network
	Enrolments  float64       // a second from one network
	Relay       float64       // of either, a second from one relay
}

const (
	// maxWaiting bounds the requests that wait for an announcement; others are answered at once.
	maxWaiting = 1 << 14
	// maxEnrolling bounds the requests that wait for the shuffler: as many as wait there for a worker.
	maxEnrolling = 1 << 12
)

// Ingress serves devices. Its parts know nothing of each other.
type Ingress struct {
	c        Config
	chain    *chain
	bodies   *bodies
	used     *used
	batches  *batches
	networks networks

	reports, asks, relayed *rates

	waiting, enrolments *semaphore.Weighted
	stopping            chan struct{} // closed once no request shall wait for news any more
}

// New makes an ingress that has heard nothing yet.
func New(c Config) *Ingress {
	if c.Clock == nil {
		c.Clock = role.SystemClock()
	}
	party := func(key []byte) wire.Party { return wire.Party{Deployment: c.Deployment, Key: key} }
	return &Ingress{
		c: c, chain: newChain(party(c.Analyzer), party(c.Shuffler), c.Log),
		bodies:   &bodies{semaphore.NewWeighted(c.Limits.Memory), c.Limits.Body},
		used:     new(used),
		batches:  newBatches(c.Bus, c.Batched),
		networks: networks{c.Proxies, c.Relays},
		reports:  newRates(c.Limits.Reports), asks: newRates(c.Limits.Enrolments), relayed: newRates(c.Limits.Relay),
		waiting: semaphore.NewWeighted(maxWaiting), enrolments: semaphore.NewWeighted(maxEnrolling),
		stopping: make(chan struct{}),
	}
}

// Run follows the deployment and hands reports to the broker until the context ends. It always returns an error: the
// context's cause, or why the broker is of no use. Reports that wait are stored first.
func (s *Ingress) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.chain.follow(ctx, s.c.Bus) })
	g.Go(func() error {
		return s.c.Bus.WatchKeys(ctx, func(who bus.Role, payload []byte) error {
			if who != bus.Shuffler {
				return nil
			}
			s.chain.showKeys(payload)
			if s.c.Keys != nil && s.chain.keySet() != nil {
				s.c.Keys.Set(nil)
			}
			return nil
		})
	})
	g.Go(func() error { return s.batches.run(ctx) })
	return g.Wait()
}

// Stop has requests that wait for news answered at once. Call it once, before the server's shutdown.
func (s *Ingress) Stop() { close(s.stopping) }

// handler serves one request; its error is what is answered in place of it.
type handler func(w http.ResponseWriter, r *http.Request) error

// Handler serves devices.
func (s *Ingress) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /v1/announcements/{epoch}/{round}", answering(s.announcement))
	mux.Handle("GET /v1/announcements", answering(s.announcements))
	mux.Handle("GET /v1/keys", answering(s.keys))
	mux.Handle("GET /v1/openapi.json", answering(s.description))
	mux.Handle("POST /v1/enrolments", answering(s.counted(s.c.Enrolments, s.asks, s.enrol)))
	mux.Handle("PUT /v1/reports/{round}/{digest}", answering(s.counted(s.c.Reports, s.reports, s.report)))
	mux.Handle("OPTIONS /v1/", answering(preflight))
	mux.Handle("/", answering(func(_ http.ResponseWriter, r *http.Request) error {
		return wrong(http.StatusNotFound, NotFound, "no such request; GET /v1/openapi.json describes those there are")
	}))
	return mux
}

// answering lets every page read the answers: nothing here depends on who asks, and there are no cookies.
func answering(next handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Access-Control-Expose-Headers", "ETag, Retry-After")
		h.Set("Cross-Origin-Resource-Policy", "cross-origin")
		h.Set("X-Content-Type-Options", "nosniff")
		var no *refusal
		if errors.As(next(w, r), &no) {
			no.answer(w)
		}
	})
}

// preflight answers the question of a browser whether a page may send these requests.
func preflight(w http.ResponseWriter, _ *http.Request) error {
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", "GET, POST, PUT")
	h.Set("Access-Control-Allow-Headers", "Content-Type, If-None-Match, "+ticketHeader)
	h.Set("Access-Control-Max-Age", "86400")
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// counted holds a request against the rate of where it comes from, before anything of it is read, and keeps account of
// what becomes of it.
func (s *Ingress) counted(account *Account, rate *rates, next handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		return account.of(func() error { return s.limited(rate, w, r, next) })
	}
}

func (s *Ingress) limited(rate *rates, w http.ResponseWriter, r *http.Request, next handler) error {
	from, relay := s.networks.of(r)
	if relay {
		rate = s.relayed
	}
	if wait := rate.take(from, s.c.Clock.Now()); wait > 0 {
		return &refusal{http.StatusTooManyRequests, Rate, "too many requests from this network", wait}
	}
	return next(w, r)
}

// errStopped is why nothing is stored any more.
var errStopped = fmt.Errorf("ingress: stopped: %w", bus.ErrUnknown)
