package contract

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/ingress"
	"github.com/riffle-dp/riffle/internal/shuffler"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	client "github.com/riffle-dp/riffle/pkg/client/ingress"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// ticketKey is what the shuffler makes tickets with, and an ingress checks.
var ticketKey = [32]byte{7}

// edge is an ingress of a deployment, in this process.
type edge struct {
	server *httptest.Server
	conn   *bus.Conn
	end    context.CancelFunc
	done   chan struct{}

	mu  sync.Mutex
	all []seen
}

// forwarded is a shuffler's broker that keeps the chunks that the shuffler sends to the analyzer.
type forwarded struct {
	shuffler.Broker
	mu     sync.Mutex
	chunks [][]byte
}

func (f *forwarded) PublishChunk(ctx context.Context, epoch uint64, round, index uint32, payload []byte) error {
	f.mu.Lock()
	f.chunks = append(f.chunks, bytes.Clone(payload))
	f.mu.Unlock()
	return f.Broker.PublishChunk(ctx, epoch, round, index, payload)
}

// seen is what an ingress sees of a request: where it came from, what it says, and what is answered.
type seen struct {
	from, path, ticket string
	body, answer       []byte
}

// watch keeps all that an ingress sees.
func (e *edge) watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		r.Body = io.NopCloser(io.TeeReader(r.Body, &body))
		from, _, _ := net.SplitHostPort(r.RemoteAddr)
		answer := httptest.NewRecorder()
		next.ServeHTTP(&watched{w, answer}, r)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.all = append(e.all, seen{from, r.Method + " " + r.URL.Path, r.Header.Get("Riffle-Ticket"), body.Bytes(),
			answer.Body.Bytes()})
	})
}

// watched is an answer that is kept.
type watched struct {
	http.ResponseWriter
	kept *httptest.ResponseRecorder
}

func (w *watched) Write(b []byte) (int, error) {
	_, _ = w.kept.Write(b)
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// openEdge starts an ingress.
func (d *deployment) openEdge() *edge {
	e := &edge{conn: d.Connect(bus.Ingress), done: make(chan struct{})}
	in := ingress.New(ingress.Config{
		Deployment: testbed.Deployment, Analyzer: d.Analyzer.Public(), Shuffler: d.Shuffler.Public(),
		Ticket: ticketKey,
		Limits: ingress.Limits{Memory: 8 << 20, Connections: 1000, Body: testbed.Patience, Reports: 1e6,
			Enrolments: 1e6, Relay: 1e6},
		Bus: ingress.Over(e.conn.Streams), Log: testbed.Log(),
	})
	ctx, cancel := context.WithCancel(context.Background())
	e.end = cancel
	go func() { defer close(e.done); _ = in.Run(ctx) }()
	e.server = httptest.NewServer(e.watch(in.Handler()))
	d.t.Cleanup(e.kill)
	return e
}

// kill ends an ingress as a crash would: its connections break, and nothing that it had begun is finished.
func (e *edge) kill() {
	e.server.CloseClientConnections()
	e.conn.Close()
	e.end()
	e.server.Close()
	<-e.done
}

// phone is a device that knows the way to the ingress and nothing of the broker.
type phone struct {
	*device.Device
	t    *testing.T
	base func() string // an ingress, another one from time to time
	src  *rand.ChaCha8
	key  []byte       // of its installation
	http *http.Client // each has an address of its own
}

func (d *deployment) phone(n int, base func() string) *phone {
	id, credential := d.Host(1)
	one, err := device.Open(device.Config{
		Deployment: testbed.Deployment, Analyzer: d.Analyzer.Public(), Shuffler: d.Shuffler.Public(), Identity: id,
		Credential: credential,
		Limits: device.Limits{Trust: plan.Channels(), Epsilon: 4, Delta: 1e-3, MinCohort: 4, MaxReleases: 8,
			MaxNorm: 10, MaxMessages: 1000, Records: 1},
	}, 0, nil)
	d.must(err)
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(n+1))}}
	own := &http.Transport{DialContext: from.DialContext}
	d.t.Cleanup(own.CloseIdleConnections)
	return &phone{one, d.t, base, rand.NewChaCha8([32]byte{byte(n), byte(n >> 8)}), id.Public(),
		&http.Client{Transport: own}}
}

// try calls an ingress until it answers with other than a refusal that passes.
func (p *phone) try(call func(ctx context.Context, c *client.Client) error) (err error) {
	for deadline := time.Now().Add(testbed.Patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		c, bad := client.New(p.base(), p.http)
		if bad != nil {
			return bad
		}
		var no *client.Refusal
		if err = call(p.t.Context(), c); err == nil || errors.As(err, &no) && no.Final() {
			return err
		}
	}
	return fmt.Errorf("no answer in time: %w", err)
}

// join enrols in the epoch in force.
func (p *phone) join(now time.Time) (answer device.Answer, err error) {
	err = p.try(func(ctx context.Context, c *client.Client) error {
		chain, err := c.Announcements(ctx, p.Status().Epoch, 0, 0)
		for _, signed := range chain {
			if _, err := p.Follow(signed, now); err != nil {
				return err
			}
		}
		if err == nil && p.Status().Epoch == 0 {
			err = errors.New("nothing is announced yet")
		}
		if err != nil {
			return err
		}
		keys, err := c.Keys(ctx)
		if err != nil {
			return err
		}
		return p.Keys(keys)
	})
	for answer.Again = true; answer.Again && err == nil; {
		err = p.try(func(ctx context.Context, c *client.Client) error {
			request, err := p.Enrol(now)
			if err != nil {
				return err
			}
			reply, err := c.Enrol(ctx, request)
			if err != nil {
				return err
			}
			answer, err = p.Answer(reply, now)
			return err
		})
	}
	if err == nil && (!answer.Enrolled || len(answer.Ticket) != wire.TicketSize) {
		err = fmt.Errorf("not enrolled, or without a ticket: %+v", answer)
	}
	return answer, err
}

// take takes part in the epoch in force; each report is sent twice. It returns the epoch.
func (p *phone) take(reward float64) (epoch uint64, err error) {
	now := time.Now()
	answer, err := p.join(now)
	if err != nil {
		return 0, err
	}
	made, err := p.Decide([][]float64{{0.6, 0.2}, {-0.3, 0.5}}, p.src)
	if err != nil {
		return 0, err
	}
	if _, err := p.Reward(made.Handle, reward, now); err != nil {
		return 0, err
	}
	epoch = p.Status().Epoch
	report, err := p.Report(answer.ReportAt)
	if err != nil {
		return 0, err
	}
	sent := client.Report{Epoch: epoch, Slot: answer.Slot, Ticket: wire.Ticket(answer.Ticket), Body: report}
	for i := range 2 {
		err := p.try(func(ctx context.Context, c *client.Client) error { return c.Report(ctx, sent) })
		var no *client.Refusal
		over := i > 0 && errors.As(err, &no) && no.Status == http.StatusGone // the second may come after the round
		if err != nil && !over {
			return 0, fmt.Errorf("report, time %d: %w", i+1, err)
		}
	}
	return epoch, nil
}

// Devices take part over two ingresses with nothing but HTTP. One of these is killed in the middle, another one takes
// its place, and every report is sent twice, to any of them: each counts once, and none is lost.
func TestNothingIsLostOrDoubledAtTheEdge(t *testing.T) {
	t.Parallel()
	const people = 60
	timing := testbed.Timing()
	timing.RewardWindow = testbed.Long // devices send before: a busy machine is never late
	d := start(t, testbed.Learner(glm.Practical, people), timing, testbed.Terms())
	var edges [2]atomic.Pointer[edge]
	for i := range edges {
		edges[i].Store(d.openEdge())
	}
	var turn, stored atomic.Int64
	base := func() string { return edges[turn.Add(1)%2].Load().server.URL }
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for n := range people {
		p := d.phone(n, base)
		wg.Go(func() {
			<-begin
			if epoch, err := p.take(1); err != nil || epoch != 1 {
				t.Errorf("phone %d, epoch %d: %v", n, epoch, err)
			}
			if stored.Add(1) == people/3 {
				old := edges[0].Load()
				edges[0].Store(d.openEdge())
				old.kill()
			}
		})
	}
	close(begin)
	wg.Wait()
	if c := d.counts(1, 0); c.Destroyed || int(c.Reports) != people {
		t.Errorf("%d of %d reports are counted, destroyed %v", c.Reports, people, c.Destroyed)
	}
	m := d.manifests()[0]
	if m.Outcome != wire.Released || int(m.Enrolled) != people || int(m.Reports) != people || len(m.Refused) > 0 {
		t.Errorf("the manifest says %+v", m)
	}
}

// An ingress that is malicious, alone and with each of the others. Alone it sees addresses, times, tickets and sealed
// bytes of the same sizes whatever a person does, and no report that it makes up or copies counts. With the shuffler it
// knows which address is which device. With the analyzer it finds nothing of what it saw again.
func TestWhatTheEdgeLearns(t *testing.T) {
	t.Parallel()
	const people = 24
	timing := testbed.Timing()
	timing.RewardWindow = testbed.Long
	d := start(t, testbed.Learner(glm.Practical, people), timing, testbed.Terms())
	e := d.openEdge()
	base := func() string { return e.server.URL }
	phones := make([]*phone, people)
	for n := range phones {
		phones[n] = d.phone(n, base)
	}
	var wg sync.WaitGroup
	for n, p := range phones[:people-1] {
		wg.Go(func() {
			if _, err := p.take(float64(n % 2)); err != nil {
				t.Errorf("phone %d: %v", n, err)
			}
		})
	}
	wg.Wait()

	// While one is awaited, the ingress hands in copies and junk with every ticket that it saw and with all that its
	// key makes.
	e.mu.Lock()
	saw := slices.Clone(e.all)
	e.mu.Unlock()
	var forged []bus.Ticketed
	for i, s := range saw {
		if len(s.ticket) > 0 && len(forged) < bus.MaxBatch-1 {
			forged = append(forged,
				bus.Ticketed{Epoch: 1, Ticket: []byte{1, byte(i)}, Payload: s.body},
				bus.Ticketed{Epoch: 1, Ticket: []byte{2, byte(i)}, Payload: make([]byte, len(s.body))})
		}
	}
	d.must(errors.Join(e.conn.Reports.PublishTicketed(d.Context(), forged)...))
	if _, err := phones[people-1].take(1); err != nil {
		t.Error(err)
	}
	if c := d.counts(1, 0); c.Destroyed || int(c.Reports) != people {
		t.Errorf("%d of %d reports are counted, destroyed %v", c.Reports, people, c.Destroyed)
	}

	// Alone.
	slots := map[string]uint32{} // by address
	sizes := map[string]bool{}
	e.mu.Lock()
	saw = e.all
	e.mu.Unlock()
	for _, s := range saw {
		kind, _, _ := strings.Cut(s.path, "/v1/")
		if kind != "GET " {
			sizes[fmt.Sprint(kind, len(s.body), " ", len(s.answer) > 0)] = true
		}
		if _, slot, err := wire.ParseTicketHeader(s.ticket); err == nil {
			slots[s.from] = slot
		}
	}
	if len(sizes) > 3 { // a request and its reply, a report, and one that comes when the round is over
		t.Errorf("requests of people with and without a reward differ in size: %v", sizes)
	}

	// With the shuffler.
	d.stop()
	var hosts [][]byte // by slot
	for _, ev := range d.journal() {
		if ev.Enrolled != nil {
			hosts = append(hosts, ev.Enrolled.Host)
		}
	}
	linked := 0
	for n, p := range phones {
		if slot, found := slots[fmt.Sprintf("127.0.1.%d", n+1)]; found && bytes.Equal(hosts[slot], p.key) {
			linked++
		}
	}
	if linked != people {
		t.Errorf("with the shuffler it links %d of %d addresses: docs/threat-model.md says all", linked, people)
	}

	// With the analyzer: no 16 bytes of what this one got were at the edge.
	edge := map[[16]byte]bool{}
	for _, s := range saw {
		for _, b := range [][]byte{s.body, s.answer} {
			for i := range len(b) - 15 {
				edge[[16]byte(b[i:])] = true
			}
		}
	}
	d.mixed.mu.Lock()
	defer d.mixed.mu.Unlock()
	windows := 0
	for _, c := range d.mixed.chunks {
		for i := range len(c) - 15 {
			if window := [16]byte(c[i:]); window != ([16]byte{}) && edge[window] {
				t.Fatal("what was at the edge came to the analyzer as it was")
			}
			windows++
		}
	}
	if windows == 0 || len(edge) == 0 {
		t.Error("nothing was compared")
	}
}
