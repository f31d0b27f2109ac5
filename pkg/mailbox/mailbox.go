package mailbox

import (
	"container/heap"
	"crypto/hmac"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/riffle-dp/riffle/pkg/client/ingress"
	"github.com/riffle-dp/riffle/pkg/wire"
)

//go:embed openapi.json
var description []byte

// OpenAPI is the OpenAPI 3.1 description of what a Mailbox serves.
func OpenAPI() []byte { return description }

// ErrNoAccount is for Config.Account: nobody is logged in.
var ErrNoAccount = errors.New("mailbox: nobody is logged in")

// Config is what a Mailbox needs.
type Config struct {
	// Account says who asks, by the app's own login. An error, or nobody, is answered with 401.
	Account func(*http.Request) (account string, err error)
	Origins []string // of web pages that may deposit, as https://app.example, beside the handler's own
	Key     []byte   // 32 secret bytes or more, under which accounts are hashed; the same as long as the store lasts
	Store   Store
	Ingress *url.URL     // of the deployment
	Client  *http.Client // that speaks to the ingress; nil: that of ingress.New
	Clock   Clock        // nil: the system's

	MaxSize     int           // bytes of one report; 0: the largest that there can be
	MaxDeposits int           // that the store holds; 0: 1 000 000
	MaxWait     time.Duration // from a first deposit to its due time; 0: 7 days
	// Keep is how long after its due time a report is offered to the ingress if that neither takes it nor says that the
	// round is over; 0: 1 day.
	Keep time.Duration
}

// Clock tells the time and waits for it.
type Clock interface {
	Now() time.Time
	// After sends the time once d has passed, at once where d is not positive.
	After(d time.Duration) <-chan time.Time
}

type systemClock struct{}

func (systemClock) Now() time.Time                         { return time.Now() }
func (systemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// Store is where deposits are, by names of up to 64 bytes. Safe for concurrent use.
type Store interface {
	// Put returns once the value is durable, in place of the one that had the name.
	Put(name, value []byte) error
	// Get returns nothing where there is no such name.
	Get(name []byte) ([]byte, error)
	Delete(name []byte) error
	// Each calls f with every entry, and ends with the first error of f. f keeps neither slice.
	Each(f func(name, value []byte) error) error
}

const (
	// perAccount is how many deposits one account may have, those included that were sent within Config.Keep.
	perAccount = 8
	// still is how long before a report is due nothing takes its place any more: a deposit that is being stored must
	// not make the report late.
	still = time.Second
	// reading bounds the bytes of bodies that are read at a time.
	reading = 64 << 20
	// bodyTime is how long a body may take to come.
	bodyTime = 30 * time.Second
	// answerTime is how long it may take after that to store a deposit and to answer.
	answerTime = 10 * time.Second
)

// Mailbox is a handler and what forwards. Mount it below the root of a server's paths, and call Run.
type Mailbox struct {
	c       Config
	ingress *ingress.Client
	mux     *http.ServeMux
	bodies  *semaphore.Weighted

	mu       sync.Mutex
	entries  map[place]*entry
	tickets  map[ticketed]*entry
	accounts map[account]int // entries of each
	due      queue
	earlier  chan struct{} // holds one thing where the queue's first changed
	counts   Counts
}

// Counts tell how a Mailbox does. Nothing in them tells whether a deposit was the first of its place.
type Counts struct {
	Waiting   int // reports that are not sent
	Forwarded int // since the start
	Refused   int // by the ingress, for good, since the start
	GivenUp   int // since the start
}

// New reads the store. It refuses a configuration that lacks something.
func New(c Config) (*Mailbox, error) {
	switch {
	case c.Account == nil || c.Store == nil:
		return nil, errors.New("mailbox: an Account and a Store are needed")
	case len(c.Key) < 32:
		return nil, fmt.Errorf("mailbox: a key of %d bytes, must have 32 or more", len(c.Key))
	case c.Ingress == nil:
		return nil, errors.New("mailbox: the address of an ingress is needed")
	case c.MaxSize < 0 || c.MaxDeposits < 0 || c.MaxWait < 0 || c.Keep < 0:
		return nil, errors.New("mailbox: limits must not be negative")
	}
	to, err := ingress.New(c.Ingress.String(), c.Client)
	if err != nil {
		return nil, fmt.Errorf("mailbox: %w", err)
	}
	if c.Clock == nil {
		c.Clock = systemClock{}
	}
	if c.MaxSize == 0 {
		c.MaxSize = wire.EnvelopeSize(wire.MaxPayload)
	}
	if c.MaxDeposits == 0 {
		c.MaxDeposits = 1_000_000
	}
	if c.MaxWait == 0 {
		c.MaxWait = 7 * 24 * time.Hour
	}
	if c.Keep == 0 {
		c.Keep = 24 * time.Hour
	}
	m := &Mailbox{
		c: c, ingress: to, mux: http.NewServeMux(), bodies: semaphore.NewWeighted(max(reading, int64(c.MaxSize))),
		entries: map[place]*entry{}, tickets: map[ticketed]*entry{}, accounts: map[account]int{},
		earlier: make(chan struct{}, 1),
	}
	m.mux.HandleFunc("PUT /v1/deposits/{round}/{slot}", m.put)
	m.mux.HandleFunc("OPTIONS /v1/deposits/{round}/{slot}", func(w http.ResponseWriter, r *http.Request) {
		if !m.cross(w, r) {
			foreign.write(w)
			return
		}
		w.Header().Set("Access-Control-Allow-Methods", "PUT")
		w.Header().Set("Access-Control-Allow-Headers", "Content-Type, Authorization, Riffle-Ticket, Riffle-Due")
		w.Header().Set("Access-Control-Max-Age", "86400")
		w.WriteHeader(http.StatusNoContent)
	})
	m.mux.HandleFunc("GET /v1/deposits/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(description) // a client that is gone needs no answer
	})
	return m, c.Store.Each(func(name, value []byte) error {
		at, err := parsePlace(name)
		if err != nil {
			return err
		}
		d, err := parseDeposit(value)
		if err != nil {
			return err
		}
		e := newEntry(at, d)
		if e.sent = len(d.body) == 0; e.sent {
			e.next = m.forget(e)
		} else {
			m.counts.Waiting++
		}
		m.enter(e)
		heap.Push(&m.due, e)
		return nil
	})
}

// ServeHTTP implements http.Handler.
func (m *Mailbox) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.mux.ServeHTTP(w, r) }

// Counts tells how the mailbox does.
func (m *Mailbox) Counts() Counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts
}

// hash is what an account is stored as.
func (m *Mailbox) hash(name string) account {
	mac := hmac.New(sha256.New, m.c.Key)
	mac.Write([]byte("riffle mailbox account"))
	mac.Write([]byte(name))
	return account(mac.Sum(nil))
}
