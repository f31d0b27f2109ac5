package ingress

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	client "github.com/riffle-dp/riffle/pkg/client/ingress"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// lockedBuffer is a log that a test reads while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// process is a whole ingress as its program runs it, with TLS.
type process struct {
	*scene
	log    *lockedBuffer
	ops    string
	client *http.Client
	halt   func() error
}

func startProcess(t *testing.T) *process {
	t.Helper()
	keys := filepath.Join(t.TempDir(), "keys")
	if err := keyring.Generate(keys, keyring.Options{Name: testbed.Deployment,
		Brokers: []keyring.BrokerOptions{{Name: "web", Hosts: []string{"127.0.0.1"}}}}); err != nil {
		t.Fatal(err)
	}
	users, err := keyring.LoadUsers(keys)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{log: new(lockedBuffer), scene: newScene(t, func(o *broker.Options, _ *bus.ProvisionOptions) {
		o.Users[bus.Ingress] = append(o.Users[bus.Ingress], users[keyring.Ingress]...)
	})}
	analyzer, err := keyring.LoadAnalyzer(keys)
	p.must(err)
	shuffler, err := keyring.LoadShuffler(keys)
	p.must(err)
	p.Analyzer, p.Shuffler, p.c.Ticket = analyzer.Identity, shuffler.Identity, shuffler.Ticket

	common := role.DefaultSettings("127.0.0.1:0")
	common.Log.Level, common.Log.Format = "debug", "json"
	env, err := role.NewEnv(Role().Name, common, p.log)
	p.must(err)
	settings := Role().Defaults
	settings.Keys, settings.HTTP.Listen, settings.Broker.URL = keys, "127.0.0.1:0", p.brokerURL()
	settings.HTTP.Cert = filepath.Join(keys, "broker-web", "server.pem")
	settings.HTTP.CertKey = filepath.Join(keys, "broker-web", "server.key")
	serve, err := Role().Prepare(env, settings)
	p.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- env.Run(ctx, serve) }()
	p.halt = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { p.must(p.halt()) })
	p.ops, p.url = "http://"+p.listens("ops.listen"), "https://"+p.listens("http.listen")
	pem, err := os.ReadFile(filepath.Join(keys, keyring.AuthorityFile))
	p.must(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	p.client = &http.Client{Transport: &second{t, &http.Transport{ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}}
	t.Cleanup(p.client.CloseIdleConnections)
	return p
}

// second expects answers over HTTP/2.
type second struct {
	t *testing.T
	*http.Transport
}

// RoundTrip implements http.RoundTripper.
func (s *second) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := s.Transport.RoundTrip(r)
	if err == nil && answer.ProtoMajor != 2 {
		s.t.Errorf("answered over %s", answer.Proto)
	}
	return answer, err
}

// brokerURL is where the bed's broker listens.
func (s *scene) brokerURL() string { return s.Tap(time.Now).URL }

// listens waits until a listener of the process says where it is.
func (p *process) listens(which string) (address string) {
	p.t.Helper()
	at := regexp.MustCompile(`"listener":"` + regexp.QuoteMeta(which) + `","address":"([^"]+)"`)
	testbed.Eventually(p.t, which, func() bool {
		if m := at.FindStringSubmatch(p.log.String()); m != nil {
			address = m[1]
		}
		return address != ""
	})
	return address
}

func (p *process) get(url string) (status int, body string) {
	p.t.Helper()
	got, err := http.Get(url)
	p.must(err)
	defer got.Body.Close()
	b, err := io.ReadAll(got.Body)
	p.must(err)
	return got.StatusCode, string(b)
}

// The program serves over TLS and HTTP/2, is ready once it has the shuffler's keys, tells no address in log or metrics,
// and stops without a fault.
func TestTheProgramServesAndTellsNoAddress(t *testing.T) {
	t.Parallel()
	p := startProcess(t)
	if status, why := p.get(p.ops + "/readyz"); status != 503 || !strings.Contains(why, "keys") {
		t.Errorf("without the shuffler's keys: %d %s", status, why)
	}
	keys := p.keys(1)
	testbed.Eventually(t, "ready", func() bool { status, _ := p.get(p.ops + "/readyz"); return status == 200 })
	a := p.Announcement("practical", 12)
	p.put(a)
	body := p.envelope(0)
	in, err := client.New(p.url, p.client)
	p.must(err)
	put := func(body []byte) error {
		return in.Report(p.Context(), client.Report{Epoch: a.Epoch, Round: a.Round, Slot: 3, Body: body,
			Ticket: wire.NewTicket(p.c.Ticket, testbed.Deployment, a.Epoch, 3)})
	}
	testbed.Eventually(t, "stored", func() bool { return put(body) == nil })
	var no *client.Refusal
	if err := put(p.envelope(1)); !errors.As(err, &no) || no.Reason != string(Repeated) || !no.Final() {
		t.Errorf("another report: %v", err)
	}
	if one, err := in.Announcement(p.Context(), a.Epoch, a.Round); err != nil || !bytes.Equal(one, p.signed) {
		t.Errorf("the announcement: %d bytes, %v", len(one), err)
	}
	all, err := in.Announcements(p.Context(), 0, 0, 0)
	if err != nil || len(all) != 1 || !bytes.Equal(all[0], p.signed) {
		t.Errorf("the chain: %d, %v", len(all), err)
	}
	if set, err := in.Keys(p.Context()); err != nil || !bytes.Equal(set, keys) {
		t.Errorf("the keys: %d bytes, %v", len(set), err)
	}
	if _, err := in.Enrol(p.Context(), make([]byte, wire.SealedRequestSize)); !errors.As(err, &no) || no.Final() ||
		no.Reason != string(Unavailable) || no.After != 5*time.Second {
		t.Errorf("without a shuffler: %v", err)
	}
	_, metrics := p.get(p.ops + "/metrics")
	for _, want := range []string{`riffle_released_total{item="report",role="ingress"} `,
		`riffle_refused_total{item="report",reason="repeated",role="ingress"} 1`, "riffle_ingress_batch_reports_count 1"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	var status string
	testbed.Eventually(t, "in the epoch and ready", func() bool { // a busy machine may not hear its broker for a moment
		_, status = p.get(p.ops + "/status.json")
		var shown struct {
			Epoch uint64
			Ready bool
		}
		err := json.Unmarshal([]byte(status), &shown)
		return err == nil && shown.Epoch == 1 && shown.Ready
	})
	if err := p.halt(); err != nil {
		t.Error(err)
	}
	listeners := regexp.MustCompile(`"address":"127\.0\.0\.1:\d+"`)
	for what, text := range map[string]string{"log": listeners.ReplaceAllString(p.log.String(), ""), "metrics": metrics,
		"status": status} {
		for _, secret := range []string{"127.0.0.1", p.header(3), fmt.Sprintf("%x", body[:8])} {
			if strings.Contains(text, secret) {
				t.Errorf("the %s has %s", what, secret)
			}
		}
	}
}

// slowBroker stores nothing until it is told to.
type slowBroker struct {
	Broker
	begun, done chan struct{}
}

func (s slowBroker) PublishTicketed(ctx context.Context, all []bus.Ticketed) []error {
	s.begun <- struct{}{}
	<-s.done
	return s.Broker.PublishTicketed(ctx, all)
}

// A process that is asked to stop finishes the reports that it has read, and acknowledges those that are stored.
func TestAStopLosesNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	slow := slowBroker{Over(s.Connect(bus.Ingress).Streams), make(chan struct{}, 9), make(chan struct{})}
	s.c.Bus = slow
	s.start()
	s.announce(12)
	answers := make(chan answer, 1)
	go func() { answers <- s.report(0, s.envelope(0)) }()
	<-slow.begun
	stopped := make(chan struct{})
	go func() { defer close(stopped); s.stop() }()
	testbed.Eventually(t, "closed to new connections", func() bool {
		_, err := (&http.Client{Transport: &http.Transport{}}).Get(s.url + "/v1/openapi.json")
		return err != nil
	})
	close(slow.done)
	s.want(<-answers, 204, "")
	<-stopped
	if n := len(s.stored()); n != 1 {
		t.Errorf("%d reports are stored", n)
	}
}

// Two reports with one ticket at the same time: the second waits for what becomes of the first.
func TestTwoReportsOfATicketAtOnce(t *testing.T) {
	t.Parallel()
	for _, fails := range []bool{false, true} {
		u, at := new(used), place{3, 0}
		begun, end := make(chan struct{}), make(chan error)
		first := make(chan error, 1)
		go func() {
			first <- u.once(t.Context(), at, 7, [32]byte{1}, func() error { close(begun); return <-end })
		}()
		<-begun
		second, third := make(chan error, 1), make(chan error, 1)
		stored := false
		go func() {
			second <- u.once(t.Context(), at, 7, [32]byte{2}, func() error { stored = true; return nil })
		}()
		over, cancel := context.WithCancel(t.Context())
		cancel()
		third <- u.once(over, at, 7, [32]byte{1}, func() error { t.Error("stored twice"); return nil })
		if err := <-third; err == nil {
			t.Error("who waits for the first does not see its own end")
		}
		var want error
		if fails {
			want = bus.ErrFull
		}
		end <- want
		if err := <-first; err != want {
			t.Errorf("first: %v", err)
		}
		if err := <-second; stored != fails || (err == nil) != fails {
			t.Errorf("the first fails %v: the second is stored %v, %v", fails, stored, err)
		}
		if err := u.once(t.Context(), place{4, 0}, 7, [32]byte{9}, func() error { return nil }); err != nil {
			t.Errorf("in the next epoch: %v", err)
		}
		late := 0
		for range 2 { // of a round that is over nothing is remembered
			if err := u.once(t.Context(), at, 7, [32]byte{1}, func() error { late++; return nil }); err != nil {
				t.Error(err)
			}
		}
		if late != 2 {
			t.Errorf("%d of 2 late reports were handed in", late)
		}
	}
}

func FuzzPlace(f *testing.F) {
	f.Add("1.0")
	f.Add("18446744073709551615.4294967295")
	f.Add("01.0")
	f.Fuzz(func(t *testing.T, text string) {
		at, err := parsePlace(text)
		if err == nil && fmt.Sprintf("%d.%d", at.epoch, at.round) != text {
			t.Errorf("%q is read as %v", text, at)
		}
	})
}
