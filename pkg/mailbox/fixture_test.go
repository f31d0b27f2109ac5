package mailbox_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/pkg/mailbox"
	"github.com/riffle-dp/riffle/pkg/problem"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// memory is a store that outlives mailboxes and can fail.
type memory struct {
	mu     sync.Mutex
	values map[string]string
	fails  func(call string, name []byte) bool
	slow   time.Duration // a Put takes
}

var (
	errFailed = errors.New("the store fails")
	errAway   = errors.New("connection refused")
)

func (m *memory) failed(call string, name []byte) error {
	if m.fails != nil && m.fails(call, name) {
		return errFailed
	}
	return nil
}

func (m *memory) Put(name, value []byte) error {
	time.Sleep(m.slow)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.failed("put", name); err != nil {
		return err
	}
	if m.values == nil {
		m.values = map[string]string{}
	}
	m.values[string(name)] = string(value)
	return nil
}

func (m *memory) Get(name []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return []byte(m.values[string(name)]), m.failed("get", name)
}

func (m *memory) Delete(name []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.failed("delete", name); err != nil {
		return err
	}
	delete(m.values, string(name))
	return nil
}

func (m *memory) Each(f func(name, value []byte) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.values)) {
		if err := f([]byte(name), []byte(m.values[name])); err != nil {
			return err
		}
	}
	return nil
}

func (m *memory) kept() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.values)
}

// mend ends what goes wrong in store and ingress.
func (f *fixture) mend() {
	f.store.mu.Lock()
	f.store.fails = nil
	f.store.mu.Unlock()
	f.ingress.mu.Lock()
	f.ingress.answers, f.ingress.lost = nil, nil
	f.ingress.mu.Unlock()
}

// sent is a report as the ingress gets it.
type sent struct {
	at     time.Duration // since the fixture's start
	path   string
	ticket string
	size   int
	body   string
}

// ingress answers as one does: one body for each ticket.
type ingress struct {
	start time.Time
	mu    sync.Mutex
	all   []sent
	has   map[string]string
	// answers, if it is there, is asked first: 0 means that the ingress answers.
	answers func(n int, s sent) (status int, header http.Header, err error)
	lost    func() bool // whether the answer to a report that was taken does not come; may be nil
}

// RoundTrip implements http.RoundTripper, without a network, so that a test's time can be virtual.
func (i *ingress) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	digest := sha256.Sum256(body)
	s := sent{time.Since(i.start), r.URL.Path, r.Header.Get("Riffle-Ticket"), len(body), string(body)}
	i.all = append(i.all, s)
	status, header := http.StatusNoContent, http.Header{}
	if i.answers != nil {
		if status, header, err = i.answers(len(i.all), s); err != nil {
			return nil, err
		}
	}
	if status == 0 || status == http.StatusNoContent {
		if i.has == nil {
			i.has = map[string]string{}
		}
		switch first, any := i.has[s.ticket]; {
		case r.Method != http.MethodPut || r.URL.Path[len(r.URL.Path)-64:] != hex.EncodeToString(digest[:]):
			status = http.StatusBadRequest
		case any && first != s.body:
			status, header = http.StatusConflict, problems()
		default:
			i.has[s.ticket], status = s.body, http.StatusNoContent
		}
	}
	if i.lost != nil && i.lost() {
		return nil, errAway
	}
	said := ""
	if header.Get("Content-Type") == problem.ContentType {
		said = `{"reason":"late"}`
	}
	return &http.Response{StatusCode: status, Header: header, Request: r,
		Body: io.NopCloser(strings.NewReader(said))}, nil
}

func problems() http.Header { return http.Header{"Content-Type": {problem.ContentType}} }

// fixture is a mailbox with its surroundings.
type fixture struct {
	testing.TB
	store   *memory
	ingress *ingress
	start   time.Time
	config  mailbox.Config
	*mailbox.Mailbox
	mu sync.Mutex
}

func newFixture(tb testing.TB) *fixture {
	tb.Helper()
	start := time.Now()
	f := &fixture{TB: tb, store: &memory{}, ingress: &ingress{start: start}, start: start}
	f.config = mailbox.Config{
		Account: func(r *http.Request) (string, error) {
			if who := r.Header.Get("Account"); who != "stranger" {
				return who, nil
			}
			return "", mailbox.ErrNoAccount
		},
		Key: bytes.Repeat([]byte{7}, 32), Store: f.store, Client: &http.Client{Transport: f.ingress},
		Ingress: &url.URL{Scheme: "https", Host: "ingress.example", Path: "/riffle"},
	}
	return f
}

// restart is a process after another one.
func (f *fixture) restart() {
	f.Helper()
	var err error
	if f.Mailbox, err = mailbox.New(f.config); err != nil {
		f.Fatal(err)
	}
}

// deposit is one request.
type deposit struct {
	account string
	epoch   uint64
	slot    uint32
	due     time.Duration // since the fixture's start
	body    string
	change  func(*http.Request)
}

func ticketOf(epoch uint64, slot uint32) wire.Ticket {
	return wire.NewTicket([32]byte{1}, "fixture", epoch, slot)
}

func ticketHeader(epoch uint64, slot uint32) string {
	return wire.TicketHeader(ticketOf(epoch, slot), slot)
}

func (f *fixture) put(d deposit) *httptest.ResponseRecorder { return f.putTo(f.Mailbox, d) }

func (f *fixture) putTo(h http.Handler, d deposit) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPut, fmt.Sprintf("/v1/deposits/%d.0/%d", d.epoch, d.slot),
		bytes.NewReader([]byte(d.body)))
	r.Header.Set("Account", d.account)
	r.Header.Set("Riffle-Ticket", ticketHeader(d.epoch, d.slot))
	r.Header.Set("Riffle-Due", strconv.FormatInt(f.start.Add(d.due).UnixMilli(), 10))
	if d.change != nil {
		d.change(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// must fails unless the answer has the status.
func (f *fixture) must(status int, d deposit) {
	f.Helper()
	if w := f.put(d); w.Code != status {
		f.Errorf("deposit of %s in slot %d: %d, want %d: %s", d.account, d.slot, w.Code, status, w.Body)
	}
}
