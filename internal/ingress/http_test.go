package ingress

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// The description says of every request what may come back, and nothing else: each status and reason is produced here,
// and one that is not described fails.
func TestEveryAnswerIsDescribed(t *testing.T) {
	t.Parallel()
	s := newScene(t, func(_ *broker.Options, p *bus.ProvisionOptions) { p.HostReports = 1 })
	s.start()

	s.want(s.do("GET", "/v1/keys", nil), 503, "no_keys")
	signed := s.keys(1)
	var got answer
	for got.status != 200 {
		got = s.do("GET", "/v1/keys", nil)
	}
	if !bytes.Equal(got.body, signed) || got.header.Get("Cache-Control") != "public, max-age=60" {
		t.Errorf("keys: %v", got.header)
	}
	same := func(r *http.Request) { r.Header.Set("If-None-Match", got.header.Get("ETag")) }
	s.want(s.do("GET", "/v1/keys", nil, same), 304, "")

	s.want(s.do("GET", "/v1/announcements/1/0", nil), 404, "not_announced")
	s.want(s.do("GET", "/v1/announcements/1/00", nil), 400, "malformed")
	s.want(s.do("GET", "/v1/announcements?after=1", nil), 400, "malformed")
	s.want(s.do("GET", "/v1/announcements?wait=31", nil), 400, "malformed")
	if got := s.do("GET", "/v1/announcements?wait=0", nil); got.status != 200 || len(got.body) != 0 ||
		got.header.Get("Cache-Control") != "no-store" {
		t.Errorf("before any announcement: %+v", got)
	}
	body := make([]byte, 10)
	path := func(round string, of []byte) string {
		digest := sha256.Sum256(of)
		return "/v1/reports/" + round + "/" + hex.EncodeToString(digest[:])
	}
	early := wire.TicketHeader(wire.NewTicket(s.c.Ticket, s.c.Deployment, 1, 0), 0)
	s.want(s.do("PUT", path("1.0", body), body, func(r *http.Request) { r.Header.Set("Riffle-Ticket", early) }), 503,
		"not_announced")

	s.announce(12)
	got = s.do("GET", "/v1/announcements/1/0", nil)
	if !bytes.Equal(got.body, s.signed) || got.header.Get("ETag") != `"`+hex.EncodeToString(s.digest[:])+`"` ||
		got.header.Get("Cache-Control") != "public, max-age=31536000, immutable" {
		t.Errorf("announcement: %v", got.header)
	}
	s.want(s.do("GET", "/v1/announcements/1/0", nil, same), 304, "")
	s.want(s.do("HEAD", "/v1/announcements/1/0", nil), 200, "")
	s.want(s.do("GET", "/v1/openapi.json", nil), 200, "")
	s.want(s.do("GET", "/v1/nothing", nil), 404, "not_found")
	s.want(s.do("DELETE", "/v1/keys", nil), 404, "not_found")
	if got := s.do("OPTIONS", "/v1/enrolments", nil); got.status != 204 ||
		!strings.Contains(got.header.Get("Access-Control-Allow-Headers"), "Riffle-Ticket") ||
		got.header.Get("Access-Control-Allow-Methods") != "GET, POST, PUT" {
		t.Errorf("preflight: %+v", got)
	}

	// Enrolment.
	request := make([]byte, wire.SealedRequestSize)
	s.want(s.do("POST", "/v1/enrolments", request), 503, "unavailable")
	s.in.enrolments.TryAcquire(maxEnrolling)
	s.want(s.do("POST", "/v1/enrolments", request), 503, "busy")
	s.in.enrolments.Release(maxEnrolling)
	s.want(s.do("POST", "/v1/enrolments", request[1:]), 400, "wrong_size")
	s.want(s.do("POST", "/v1/enrolments", append(request, 0)), 413, "wrong_size")
	chunked := func(r *http.Request) { r.ContentLength, r.Body = -1, io.NopCloser(bytes.NewReader(request)) }
	s.want(s.do("POST", "/v1/enrolments", nil, chunked), 411, "malformed")
	s.answerEnrolments(func(payload []byte) ([]byte, error) { return bytes.Repeat([]byte{7}, 3), nil })
	got = s.do("POST", "/v1/enrolments", request)
	for got.status == 503 { // the shuffler is not there yet
		got = s.do("POST", "/v1/enrolments", request)
	}
	if got.status != 200 || string(got.body) != "\x07\x07\x07" || got.header.Get("Cache-Control") != "no-store" {
		t.Errorf("reply: %+v", got)
	}
	s.want(s.cut("POST", "/v1/enrolments", len(request), request[:9], nil), 400, "malformed")

	// Reports.
	report := s.envelope(0)
	s.want(s.do("PUT", s.reportPath(report), report), 403, "no_ticket")
	s.want(s.do("PUT", s.reportPath(report), report, s.ticket(12)), 403, "no_ticket") // there are 12 slots, from 0 on
	s.want(s.do("PUT", path("1.0.0", report), report, s.ticket(0)), 400, "malformed")
	s.want(s.do("PUT", strings.ToUpper(path("1.0", report)), report, s.ticket(0)), 404, "not_found")
	s.want(s.do("PUT", path("1.0", report)+"0", report, s.ticket(0)), 400, "malformed")
	s.want(s.do("PUT", path("1.0", report[1:]), report[1:], s.ticket(0)), 400, "wrong_size")
	s.want(s.do("PUT", path("1.0", append(report, 0)), append(report, 0), s.ticket(0)), 413, "wrong_size")
	s.want(s.do("PUT", path("1.0", body), report, s.ticket(0)), 400, "wrong_digest")
	s.want(s.do("PUT", s.reportPath(report), nil, s.ticket(0), chunked), 411, "malformed")
	s.want(s.report(0, report), 204, "")
	s.want(s.report(0, report), 204, "")
	s.want(s.report(0, s.envelope(1)), 409, "repeated")
	s.want(s.report(1, s.envelope(1)), 503, "no_room") // for one alone
	if n := len(s.stored()); n != 1 {
		t.Errorf("%d reports are stored", n)
	}
	late, lateTicket := s.reportPath(report), s.ticket(0)
	s.announce(12)
	s.want(s.do("PUT", late, report, lateTicket), 410, "late")
	s.stop()

	// What a process without memory, with a short patience, or with a low rate answers.
	small := s.c
	small.Limits.Memory = 10
	s.in, s.url, s.stop = s.serve(small)
	s.heard(s.in)
	s.want(s.report(0, s.envelope(0)), 503, "busy")
	s.want(s.do("POST", "/v1/enrolments", request), 503, "busy")
	hasty := s.c
	hasty.Limits.Body = 20 * time.Millisecond
	s.in, s.url, s.stop = s.serve(hasty)
	s.heard(s.in)
	s.want(s.slow("POST", "/v1/enrolments", len(request), nil), 408, "slow")
	report = s.envelope(0)
	s.want(s.slow("PUT", s.reportPath(report), len(report), s.ticket(0)), 408, "slow")
	strict := s.c
	strict.Limits.Reports, strict.Limits.Enrolments = 0.001, 0.001
	s.in, s.url, s.stop = s.serve(strict)
	s.want(s.do("POST", "/v1/enrolments", request[1:]), 400, "wrong_size")
	if got := s.do("POST", "/v1/enrolments", request[1:]); got.status != 429 || got.reason != "rate" ||
		got.header.Get("Retry-After") != "1000" {
		t.Errorf("%+v", got)
	}
	s.want(s.do("PUT", "/v1/reports/1.0/x", nil), 400, "malformed")
	s.want(s.do("PUT", "/v1/reports/1.0/x", nil), 429, "rate")
	silent := s.c
	silent.Bus = mute{Over(s.Connect(bus.Ingress).Streams)}
	s.in, s.url, s.stop = s.serve(silent)
	s.heard(s.in)
	s.want(s.report(0, s.envelope(0)), 503, "unknown")
	s.want(s.do("POST", "/v1/enrolments", request), 503, "unknown")

	if never := s.doc.Unseen(); len(never) > 0 {
		t.Errorf("described, and never answered: %v", never)
	}
}

// mute is a broker that never says what became of anything.
type mute struct{ Broker }

func (mute) EnrolOnce(context.Context, []byte) ([]byte, error) { return nil, bus.ErrUnknown }
func (mute) PublishTicketed(_ context.Context, all []bus.Ticketed) []error {
	return slices.Repeat([]error{bus.ErrUnknown}, len(all))
}

// answerEnrolments has a shuffler answer until the test ends.
func (s *scene) answerEnrolments(f func([]byte) ([]byte, error)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- s.shuffler.Enrolment.ServeEnrol(ctx, 4,
			func(_ context.Context, b []byte) ([]byte, error) { return f(b) })
	}()
	s.t.Cleanup(func() { cancel(); <-done })
}

// raw sends a request's header and some of its body over a connection of its own, and then what more does.
func (s *scene) raw(method, path string, length int, body []byte, change func(*http.Request),
	more func(*net.TCPConn)) answer {
	s.t.Helper()
	r, err := http.NewRequest(method, s.url+path, nil)
	s.must(err)
	if change != nil {
		change(r)
	}
	c, err := net.Dial("tcp", r.URL.Host)
	s.must(err)
	defer c.Close()
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n", method, path, length)
	for name, values := range r.Header {
		head += name + ": " + values[0] + "\r\n"
	}
	_, err = c.Write(append([]byte(head+"\r\n"), body...))
	s.must(err)
	more(c.(*net.TCPConn))
	return s.read(c)
}

// cut ends a body early.
func (s *scene) cut(method, path string, length int, body []byte, change func(*http.Request)) answer {
	s.t.Helper()
	return s.raw(method, path, length, body, change, func(c *net.TCPConn) { s.must(c.CloseWrite()) })
}

// slow sends no body.
func (s *scene) slow(method, path string, length int, change func(*http.Request)) answer {
	s.t.Helper()
	return s.raw(method, path, length, nil, change, func(*net.TCPConn) {})
}

// A stored announcement that nobody signed, or that does not follow the last one, is handed to nobody.
func TestOnlyTheChainIsHandedOut(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	var want [][]byte
	for range 3 {
		s.announce(12)
		want = append(want, s.signed)
		fork := *s.last
		fork.Epoch, fork.Previous = fork.Epoch+5, make([]byte, 32)
		thief, _ := s.Sign(&fork, s.Registrar)
		gap, _ := s.Sign(&fork, s.Analyzer)
		for _, junk := range [][]byte{[]byte("junk"), thief, gap} {
			s.must(s.analyzer.Announcements.PutAnnouncement(s.Context(), fork.Epoch, 0, junk))
		}
		s.must(s.analyzer.Announcements.PutAnnouncement(s.Context(), s.last.Epoch, 0, []byte("junk")))
	}
	for after, n := range map[string]int{"": 3, "0.0": 3, "1.0": 2, "1.7": 2, "2.0": 1} {
		got := s.do("GET", "/v1/announcements?after="+after, nil)
		var all [][]byte
		s.must(wire.ReadFrames(bytes.NewReader(got.body), func(b []byte) error { all = append(all, b); return nil }))
		if !slices.EqualFunc(all, want[3-n:], bytes.Equal) || got.header.Get("Cache-Control") != "public, max-age=5" {
			t.Errorf("after %s: %d announcements, want %d", after, len(all), n)
		}
	}
	older := s.keys(1)
	s.keys(2)
	forged, _ := s.Sign(&wire.KeySet{Deployment: s.c.Deployment, Number: 9, Keys: [][]byte{s.ShufflerKey.Public()}},
		s.Analyzer)
	s.must(s.shuffler.Keys.PutKeys(s.Context(), forged))
	s.must(s.shuffler.Keys.PutKeys(s.Context(), older))
	last := s.keys(3)
	var got answer
	for !bytes.Equal(got.body, last) {
		got = s.do("GET", "/v1/keys", nil)
		if bytes.Equal(got.body, forged) {
			t.Fatal("a key set that is not the shuffler's is handed out")
		}
	}
	if s.in.chain.showKeys(older); !bytes.Equal(s.in.chain.keySet().signed, last) {
		t.Error("an earlier key set takes the place of a later one: a key in it may be in the wrong hands")
	}
	begun := newChain(s.in.chain.analyzer, s.in.chain.shuffler, s.c.Log)
	begun.announced(bus.Announcement{Epoch: 2, Payload: want[1]})
	if _, any := begun.last(); any {
		t.Error("a chain begins in epoch 2")
	}
}

// Who asks for what comes next hears of it when it comes; a process that stops lets them go.
func TestNewsComesToWhoWaits(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.announce(12)
	ask := func() chan answer {
		got := make(chan answer, 1)
		r, err := http.NewRequest("GET", s.url+fmt.Sprintf("/v1/announcements?after=%d.0", s.last.Epoch), nil)
		s.must(err)
		go func() {
			a, err := http.DefaultClient.Do(r)
			if err != nil {
				got <- answer{body: []byte(err.Error())}
				return
			}
			defer a.Body.Close()
			b, err := io.ReadAll(a.Body)
			got <- answer{status: a.StatusCode, body: b, reason: fmt.Sprint(err)}
		}()
		for s.in.waiting.TryAcquire(maxWaiting) { // until it waits
			s.in.waiting.Release(maxWaiting)
			time.Sleep(time.Millisecond)
		}
		return got
	}
	first := ask()
	s.announce(12)
	if got := <-first; got.status != 200 || !bytes.Equal(got.body, wire.AppendFrame(nil, s.signed)) {
		t.Errorf("%d, %d bytes", got.status, len(got.body))
	}
	second := ask()
	s.stop()
	if got := <-second; got.status != 200 || len(got.body) != 0 {
		t.Errorf("%+v", got)
	}
}

// read reads one answer.
func (s *scene) read(c net.Conn) answer {
	s.t.Helper()
	var a answer
	b, err := io.ReadAll(c)
	if err != nil && !errors.Is(err, net.ErrClosed) && len(b) == 0 {
		s.t.Fatal(err)
	}
	head, body, _ := strings.Cut(string(b), "\r\n\r\n")
	if _, err := fmt.Sscanf(head, "HTTP/1.1 %d", &a.status); err != nil {
		s.t.Fatalf("%q: %v", b, err)
	}
	a.body = []byte(body)
	if _, rest, found := strings.Cut(body, `"reason":"`); found {
		a.reason, _, _ = strings.Cut(rest, `"`)
	}
	return a
}

// A page under any name may call, and learns no more than any program: nothing in an answer depends on who asks, a
// browser sends nothing of the visitor's along, and there is nothing to take over.
func TestAPageOfAnotherSiteLearnsNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.announce(12)
	for !s.ready() {
		s.keys(1)
	}
	evil := func(r *http.Request) {
		r.Header.Set("Origin", "https://evil.example")
		r.Header.Set("Cookie", "session=victim")
		r.Header.Set("Authorization", "Bearer victim")
	}
	for _, path := range []string{"/v1/announcements/1/0", "/v1/announcements?wait=0", "/v1/keys", "/v1/openapi.json",
		"/v1/nothing"} {
		plain, page := s.do("GET", path, nil), s.do("GET", path, nil, evil)
		if page.status != plain.status || !bytes.Equal(page.body, plain.body) {
			t.Errorf("%s: another answer for the page", path)
		}
		for name := range page.header {
			if name == "Set-Cookie" || name == "Access-Control-Allow-Credentials" {
				t.Errorf("%s: the answer has %s", path, name)
			}
		}
	}
	s.want(s.do("PUT", s.reportPath(s.envelope(0)), s.envelope(0), evil), 403, "no_ticket")
}

// ready reports whether the shuffler's keys are known.
func (s *scene) ready() bool { return s.in.chain.keySet() != nil }
