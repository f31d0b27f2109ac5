package ingress

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/openapi"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/problem"
	"github.com/riffle-dp/riffle/pkg/wire"
)

func TestMain(m *testing.M) { os.Exit(testbed.RoleTests(m)) }

// scene is an ingress on a real broker, with an analyzer and a shuffler that do as the test says.
type scene struct {
	*testbed.Bed
	t        testing.TB
	analyzer *bus.Conn
	shuffler *bus.Conn
	c        Config
	doc      *openapi.Document // what answers are held to; nil: nothing

	in   *Ingress
	url  string
	stop func()

	last   *plan.Announcement
	digest [32]byte
	signed []byte
}

func newScene(t testing.TB, change ...func(*broker.Options, *bus.ProvisionOptions)) *scene {
	t.Helper()
	s := &scene{Bed: testbed.New(t, change...), t: t}
	s.analyzer, s.shuffler = s.Connect(bus.Analyzer), s.Connect(bus.Shuffler)
	s.doc = openapi.Open(t, Description())
	s.c = Config{
		Deployment: testbed.Deployment, Analyzer: s.Analyzer.Public(), Shuffler: s.Shuffler.Public(),
		Ticket: [32]byte{1, 2, 3}, Log: testbed.Log(),
		Limits: Limits{Memory: 64 << 20, Connections: 4096, Body: testbed.Long, Reports: 1e6, Enrolments: 1e6,
			Relay: 1e6},
	}
	return s
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// start serves until stop or the end of the test.
func (s *scene) start() {
	s.t.Helper()
	s.in, s.url, s.stop = s.serve(s.c)
}

// serve is one instance.
func (s *scene) serve(c Config) (in *Ingress, url string, stop func()) {
	s.t.Helper()
	reg := prometheus.NewRegistry()
	var err error
	c.Reports, err = newAccount(reg, "ingress", "report", ReportReasons())
	s.must(err)
	c.Enrolments, err = newAccount(reg, "ingress", "enrolment", EnrolmentReasons())
	s.must(err)
	if c.Bus == nil {
		c.Bus = Over(s.Connect(bus.Ingress).Streams)
	}
	in = New(c)
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	s.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	work, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- in.serve(ctx, work, end, in.Listener(socket), s.watched(in)) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Errorf("the ingress ended: %v", err)
		}
		end()
		for _, a := range []*Account{c.Reports, c.Enrolments} {
			if err := a.Check(); err != nil {
				s.t.Error(err)
			}
		}
	})
	s.t.Cleanup(stop)
	return in, "http://" + socket.Addr().String(), stop
}

// watched is the server whose answers are held to the description.
func (s *scene) watched(in *Ingress) *http.Server {
	server := in.Server()
	if s.doc != nil {
		server.Handler = s.doc.Watch(s.t, server.Handler)
	}
	return server
}

// announce announces the next round, of a cohort of this size, and waits until the ingress has heard of it.
func (s *scene) announce(cohort int) *plan.Announcement {
	s.t.Helper()
	a := s.Announcement(glm.Practical, cohort)
	if s.last != nil {
		a.Epoch, a.Previous = s.last.Epoch+1, bytes.Clone(s.digest[:])
	}
	s.put(a)
	s.heard(s.in)
	return a
}

func (s *scene) put(a *plan.Announcement) {
	s.t.Helper()
	s.signed, s.digest = s.Sign(a, s.Analyzer)
	s.last = a
	s.must(s.analyzer.Announcements.PutAnnouncement(s.Context(), a.Epoch, a.Round, s.signed))
}

// heard waits until an instance knows the last announcement.
func (s *scene) heard(in *Ingress) {
	s.t.Helper()
	testbed.Eventually(s.t, "announced", func() bool {
		l, any := in.chain.last()
		return any && l.at == place{s.last.Epoch, s.last.Round}
	})
}

// keys publishes a key set of the shuffler.
func (s *scene) keys(number uint64) []byte {
	s.t.Helper()
	signed, _ := s.Sign(&wire.KeySet{Deployment: testbed.Deployment, Number: number,
		Keys: [][]byte{s.ShufflerKey.Public()}}, s.Shuffler)
	s.must(s.shuffler.Keys.PutKeys(s.Context(), signed))
	return signed
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
	reason string
}

// do sends a request; change may alter it.
func (s *scene) do(method, path string, body []byte, change ...func(*http.Request)) answer {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, s.url+path, bytes.NewReader(body))
	s.must(err)
	for _, f := range change {
		f(r)
	}
	return s.send(r)
}

func (s *scene) send(r *http.Request) (a answer) {
	s.t.Helper()
	got, err := http.DefaultClient.Do(r)
	s.must(err)
	defer got.Body.Close()
	a.status, a.header = got.StatusCode, got.Header
	a.body, err = io.ReadAll(got.Body)
	s.must(err)
	if got.Header.Get("Content-Type") == problem.ContentType {
		var d problem.Details
		s.must(json.Unmarshal(a.body, &d))
		a.reason = d.Reason
	}
	if got.Header.Get("Access-Control-Allow-Origin") != "*" {
		s.t.Errorf("%s %s: no page may read the answer", r.Method, r.URL.Path)
	}
	return a
}

// want expects a status and a reason.
func (s *scene) want(a answer, status int, reason string) {
	s.t.Helper()
	if a.status != status || a.reason != reason {
		s.t.Errorf("answered %d %s, want %d %s: %s", a.status, a.reason, status, reason, a.body)
	}
}

// ticket adds the ticket of a slot.
func (s *scene) ticket(slot uint32) func(*http.Request) {
	header := s.header(slot)
	return func(r *http.Request) { r.Header.Set("Riffle-Ticket", header) }
}

// header is the header with a slot's ticket.
func (s *scene) header(slot uint32) string {
	return wire.TicketHeader(wire.NewTicket(s.c.Ticket, testbed.Deployment, s.last.Epoch, slot), slot)
}

// envelope is a body of the size of the round's reports.
func (s *scene) envelope(n int) []byte {
	b := make([]byte, reportSize(s.last))
	copy(b, fmt.Sprintf("report %d", n))
	return b
}

// reportPath is where a report belongs.
func (s *scene) reportPath(body []byte) string {
	digest := sha256.Sum256(body)
	return fmt.Sprintf("/v1/reports/%d.%d/%s", s.last.Epoch, s.last.Round, hex.EncodeToString(digest[:]))
}

// report hands in a report of a slot.
func (s *scene) report(slot uint32, body []byte) answer {
	s.t.Helper()
	return s.do(http.MethodPut, s.reportPath(body), body, s.ticket(slot))
}

// stored are the reports that the broker has of the last round.
func (s *scene) stored() (all [][]byte) {
	s.t.Helper()
	s.must(s.shuffler.Reports.StoredReports(s.Context(), s.last.Epoch, s.last.Round, 1,
		func(_ uint64, payload []byte) error { all = append(all, payload); return nil }))
	return all
}
