package contract

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	client "github.com/riffle-dp/riffle/pkg/client/ingress"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/mailbox"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// post is a mailbox whose processes can be killed, on a disk that stays.
type post struct {
	t *testing.T
	c mailbox.Config

	mu   sync.Mutex
	disk map[string]string
	dead *atomic.Bool // of the process
	at   *httptest.Server
	stop func()
}

// errDead is what a killed process gets of its disk and of the network.
var errDead = errors.New("the process is dead")

// part is the disk and the network of one process.
type part struct {
	*post
	dead *atomic.Bool
	via  http.RoundTripper
}

func (p *part) do(f func()) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead.Load() {
		return errDead
	}
	f()
	return nil
}

func (p *part) Put(name, value []byte) error {
	return p.do(func() { p.disk[string(name)] = string(value) })
}

func (p *part) Get(name []byte) (value []byte, err error) {
	err = p.do(func() { value = []byte(p.disk[string(name)]) })
	return value, err
}

func (p *part) Delete(name []byte) error { return p.do(func() { delete(p.disk, string(name)) }) }

func (p *part) Each(f func(name, value []byte) error) (err error) {
	return errors.Join(p.do(func() {
		for name, value := range p.disk {
			err = errors.Join(err, f([]byte(name), []byte(value)))
		}
	}), err)
}

// RoundTrip implements http.RoundTripper.
func (p *part) RoundTrip(r *http.Request) (*http.Response, error) {
	if p.dead.Load() {
		return nil, errDead
	}
	return p.via.RoundTrip(r)
}

// restart begins a process, after the one before was killed.
func (p *post) restart() {
	p.t.Helper()
	p.dead = new(atomic.Bool)
	own := &part{p, p.dead, http.DefaultTransport}
	c := p.c
	c.Store, c.Client = own, &http.Client{Transport: own}
	m, err := mailbox.New(c)
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = m.Run(ctx) }()
	p.at = httptest.NewServer(m)
	at := p.at
	p.stop = func() { cancel(); <-done; at.Close() }
}

// kill ends the process: nothing that it has begun is finished.
func (p *post) kill() {
	p.dead.Store(true)
	p.at.CloseClientConnections()
	p.stop()
}

// deposit puts a phone's report into the mailbox.
func (p *post) deposit(account string, answer device.Answer, report []byte) error {
	r, err := http.NewRequest(http.MethodPut, fmt.Sprintf("%s/v1/deposits/%d.0/%d", p.at.URL, answer.Epoch,
		answer.Slot), bytes.NewReader(report))
	if err != nil {
		return err
	}
	r.Header = http.Header{
		"Account": {account}, "Riffle-Ticket": {wire.TicketHeader(wire.Ticket(answer.Ticket), answer.Slot)},
		"Riffle-Due": {strconv.FormatInt(answer.ReportAt.UnixMilli(), 10)},
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = got.Body.Close() }()
	if got.StatusCode != http.StatusNoContent {
		return fmt.Errorf("a deposit is answered with %d", got.StatusCode)
	}
	return nil
}

// Of 40 people 16 leave their page after the first deposit, before they decide. The mailbox is killed with all deposits
// in it, and again while it sends. Every enrolled device's report is counted, once. A mailbox that sends a person's two
// deposits, each by another ingress, has one of them counted.
func TestWhoLeavesThePageIsCounted(t *testing.T) {
	t.Parallel()
	const people, leave = 40, 16
	timing := testbed.Timing()
	timing.RewardWindow = testbed.Long
	d := start(t, testbed.Learner(glm.Practical, people), timing, testbed.Terms())
	edges := [2]*edge{d.openEdge(), d.openEdge()}
	to, err := url.Parse(edges[0].server.URL)
	d.must(err)
	clock := new(testbed.Clock)
	p := &post{t: t, disk: map[string]string{}, c: mailbox.Config{
		Account: func(r *http.Request) (string, error) { return r.Header.Get("Account"), nil },
		Key:     make([]byte, 32), Ingress: to, Clock: clock,
	}}
	p.restart()
	var wg sync.WaitGroup
	for n := range people {
		phone := d.phone(n, func() string { return edges[n%2].server.URL })
		wg.Go(func() {
			if err := phone.visit(p, n, n < leave, edges); err != nil {
				t.Errorf("phone %d: %v", n, err)
			}
		})
	}
	wg.Wait()
	p.kill()
	p.restart()
	clock.Pass(testbed.Long + time.Minute)
	testbed.Eventually(t, "some reports are sent", func() bool { return edges[0].puts() > 5 })
	p.kill()
	p.restart()
	defer func() { p.kill() }()
	if c := d.counts(1, 0); c.Destroyed || int(c.Reports) != people {
		t.Errorf("%d of %d reports are counted, destroyed %v", c.Reports, people, c.Destroyed)
	}
	m := d.manifests()[0]
	if m.Outcome != wire.Released || int(m.Enrolled) != people || int(m.Reports) != people {
		t.Errorf("the manifest says %+v", m)
	}
}

// puts counts the reports that an ingress was sent.
func (e *edge) puts() (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.all {
		if s.ticket != "" {
			n++
		}
	}
	return n
}

// visit is one page: it deposits, and then leaves, or decides, is rewarded and deposits again. The last person's
// deposits go to the ingresses at once, by a malicious mailbox.
func (p *phone) visit(to *post, n int, leaves bool, edges [2]*edge) error {
	now := time.Now()
	answer, err := p.join(now)
	if err != nil {
		return err
	}
	first, err := p.Deposit(now)
	if err != nil {
		return err
	}
	if err := to.deposit(strconv.Itoa(n), answer, first); err != nil || leaves {
		return err
	}
	p.Deposited()
	made, err := p.Decide([][]float64{{0.6, 0.2}, {-0.3, 0.5}}, p.src)
	if err != nil || !made.Sampled {
		return fmt.Errorf("%+v: %w", made, err)
	}
	if _, err := p.Reward(made.Handle, 1, now); err != nil {
		return err
	}
	second, err := p.Deposit(now)
	if err != nil {
		return err
	}
	if err := to.deposit(strconv.Itoa(n), answer, second); err != nil || n+1 < 40 {
		return err
	}
	for i, report := range [][]byte{first, second} {
		in, err := client.New(edges[i].server.URL, nil)
		if err != nil {
			return err
		}
		var no *client.Refusal // one of them may be
		if err := in.Report(p.t.Context(), client.Report{Epoch: answer.Epoch, Slot: answer.Slot,
			Ticket: wire.Ticket(answer.Ticket), Body: report}); err != nil && !errors.As(err, &no) {
			return err
		}
	}
	return nil
}
