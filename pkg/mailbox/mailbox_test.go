package mailbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/riffle-dp/riffle/internal/testing/openapi"
	"github.com/riffle-dp/riffle/pkg/mailbox"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// run runs the mailbox until the function that it returns is called.
func (f *fixture) run() (stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	ended, done := errors.New("ended"), make(chan error)
	go func(m *mailbox.Mailbox) { done <- m.Run(ctx) }(f.Mailbox)
	return func() {
		cancel(ended)
		if err := <-done; !errors.Is(err, ended) {
			f.Errorf("Run: %v", err)
		}
	}
}

// The last deposit is sent once, when the first said that it is due, whatever came between; then nothing takes its
// place, and in the end nothing is left of it.
func TestTheLastDepositIsSentWhenItIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.restart()
		defer f.run()()
		one := deposit{account: "ada", epoch: 3, slot: 7, due: time.Minute, body: "null"}
		two := one
		two.body = "true"
		f.must(http.StatusNoContent, one)
		f.must(http.StatusNoContent, one)
		time.Sleep(30 * time.Second)
		f.must(http.StatusNoContent, two)
		f.must(http.StatusNoContent, two)
		time.Sleep(30*time.Second - 1)
		f.must(http.StatusConflict, one)
		if len(f.ingress.got()) != 0 {
			t.Fatalf("sent before it is due: %+v", f.ingress.got())
		}
		time.Sleep(2 * time.Second)
		f.must(http.StatusConflict, two)
		if len(f.ingress.got()) != 1 || f.ingress.got()[0].at != time.Minute || f.ingress.got()[0].body != "true" ||
			!strings.HasPrefix(f.ingress.got()[0].path, "/riffle/v1/reports/3.0/") {
			t.Fatalf("%+v", f.ingress.got())
		}
		if got, want := f.Counts(), (mailbox.Counts{Forwarded: 1}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		for name, value := range f.store.kept() {
			if strings.Contains(name+value, "ada") || strings.Contains(value, "true") {
				t.Errorf("the store has %q: %q", name, value)
			}
		}
		time.Sleep(25 * time.Hour)
		f.must(http.StatusGone, two)
		if len(f.store.kept()) != 0 || len(f.ingress.got()) != 1 {
			t.Errorf("left: %q", f.store.kept())
		}
	})
}

// Every answer is in the OpenAPI description, and every answer that it has comes.
func TestAnswersAreDescribed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.config.MaxSize, f.config.MaxDeposits, f.config.MaxWait = 64, 9, time.Hour
		f.config.Origins = []string{"https://app.example"}
		f.restart()
		doc := openapi.Open(t, mailbox.OpenAPI())
		h := doc.Watch(t, f)
		good := deposit{account: "ada", epoch: 3, slot: 7, due: time.Minute, body: "null"}
		try := func(status int, reason string, change func(*deposit)) {
			t.Helper()
			d := good
			if change != nil {
				change(&d)
			}
			w := f.putTo(h, d)
			var got struct{ Reason string }
			_ = json.Unmarshal(w.Body.Bytes(), &got) // of 204 there is none
			if w.Code != status || got.Reason != reason || w.Header().Get("Cache-Control") != "no-store" ||
				(w.Code == 503 || w.Code == 429) != (w.Header().Get("Retry-After") != "") {
				t.Errorf("%d %s, want %d %s: %v", w.Code, w.Body, status, reason, w.Header())
			}
		}
		request := func(change func(*http.Request)) func(*deposit) { return func(d *deposit) { d.change = change } }
		header := func(name, value string) func(*deposit) {
			return request(func(r *http.Request) { r.Header.Set(name, value) })
		}
		for origin, status := range map[string]int{
			"https://evil.example": 403, "https://app.example": 204, "http://example.com": 204,
			"https://example.com": 204,
		} {
			r := httptest.NewRequest(http.MethodOptions, "/v1/deposits/3.0/7", nil)
			r.Header.Set("Origin", origin)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			allowed := w.Header().Get("Access-Control-Allow-Origin")
			if w.Code != status || (allowed != "") != (origin == "https://app.example") {
				t.Errorf("%s: %d, %q is allowed", origin, w.Code, allowed)
			}
		}
		try(403, "origin", header("Origin", "https://evil.example"))
		try(401, "unauthorized", func(d *deposit) { d.account = "" })
		try(401, "unauthorized", func(d *deposit) { d.account = "stranger" })
		for _, bad := range []func(*deposit){
			header("Riffle-Due", ""), header("Riffle-Due", "soon"), header("Riffle-Due", "-1"),
			header("Riffle-Due", "9999999999999999"), header("Riffle-Ticket", ""), header("Riffle-Ticket", "x.7"),
			request(func(r *http.Request) { r.ContentLength = -1 }),
			request(func(r *http.Request) { r.ContentLength = 5 }), // one more than come
			func(d *deposit) { d.body = "" }, func(d *deposit) { d.epoch = 0 },
			request(func(r *http.Request) { r.URL.Path = "/v1/deposits/3.0/8" }), // another slot than the ticket's
			request(func(r *http.Request) { r.URL.Path = "/v1/deposits/3.0/07" }),
			request(func(r *http.Request) { r.URL.Path = "/v1/deposits/3/7" }),
			request(func(r *http.Request) { r.URL.Path = "/v1/deposits/03.0/7" }),
		} {
			try(400, "malformed", bad)
		}
		try(400, "too_far", func(d *deposit) { d.due = time.Hour + time.Second })
		try(413, "too_large", func(d *deposit) { d.body = strings.Repeat("x", 65) })
		try(410, "late", func(d *deposit) { d.due = -24 * time.Hour })
		try(408, "slow", request(func(r *http.Request) { r.Body = io.NopCloser(slowBody{}) }))
		try(204, "", nil)
		for _, other := range []func(*deposit){
			func(d *deposit) { d.slot++ }, func(d *deposit) { d.due++ }, func(d *deposit) { d.due += time.Second },
			func(d *deposit) { d.body += "x" }, header("Riffle-Ticket", "AAAAAAAAAAAAAAAAAAAAAA.7"),
			func(d *deposit) { // the ticket is another slot's, and the ingress would refuse the report
				d.slot++
				d.change = func(r *http.Request) {
					r.Header.Set("Riffle-Ticket", wire.TicketHeader(ticketOf(3, 7), 8))
				}
			},
		} {
			d := good
			other(&d)
			if d.due == good.due+1 {
				try(204, "", other) // the same millisecond
				continue
			}
			try(409, "another", other)
		}
		for epoch := range uint64(8) {
			status, reason := 204, ""
			if epoch == 7 {
				status, reason = 429, "too_many"
			}
			try(status, reason, func(d *deposit) { d.epoch = 4 + epoch })
		}
		try(409, "another", func(d *deposit) { d.account = "bob" }) // with ada's ticket
		try(204, "", func(d *deposit) { d.account, d.slot = "bob", 8 })
		try(503, "no_room", func(d *deposit) { d.account, d.slot = "eve", 9 })
		f.store.fails = func(string, []byte) bool { return true }
		try(503, "unknown", nil)
		f.store.fails = nil
		time.Sleep(time.Minute - time.Second)
		try(409, "forwarded", nil)
		if unseen := doc.Unseen(); !slices.Equal(unseen, []string{
			"GET /v1/deposits/openapi.json 200", "PUT /v1/deposits/{round}/{slot} 503 busy",
		}) {
			t.Errorf("nothing was answered with %q", unseen)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/deposits/openapi.json", nil))
		if !bytes.Equal(w.Body.Bytes(), mailbox.OpenAPI()) {
			t.Error("another description is served")
		}
	})
}

// slowBody is a body that does not come before the server's deadline.
type slowBody struct{}

func (slowBody) Read([]byte) (int, error) { return 0, fmt.Errorf("read: %w", os.ErrDeadlineExceeded) }

// A body that takes longer than the server gives an answer, as over a slow line, is stored and answered all the same.
func TestASlowBodyIsAnswered(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.restart()
	server := httptest.NewUnstartedServer(f.Mailbox)
	server.Config.WriteTimeout = time.Nanosecond // over before the body comes, however fast
	server.Start()
	defer server.Close()
	r, err := http.NewRequest(http.MethodPut, server.URL+"/v1/deposits/3.0/7", strings.NewReader("null"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Account", "ada")
	r.Header.Set("Riffle-Ticket", ticketHeader(3, 7))
	r.Header.Set("Riffle-Due", strconv.FormatInt(f.start.Add(time.Hour).UnixMilli(), 10))
	w, err := server.Client().Do(r)
	if err != nil {
		t.Fatal("stored, and not answered: ", err)
	}
	if err := w.Body.Close(); err != nil || w.StatusCode != http.StatusNoContent {
		t.Errorf("%s, %v", w.Status, err)
	}
}
