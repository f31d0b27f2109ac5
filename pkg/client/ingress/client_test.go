package ingress_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/pkg/client/ingress"
	"github.com/riffle-dp/riffle/pkg/problem"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// to is a client of a server that answers so.
func to(t *testing.T, answer http.HandlerFunc) *ingress.Client {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	c, err := ingress.New(server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Only an ingress's own word ends the trying: not what passes, and not what something before it answers.
func TestOnlyAnIngressRefusesForGood(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status       int
		reason       string
		final        bool
		retry, after string
	}{
		{410, "late", true, "", "0s"}, {409, "repeated", true, "", "0s"}, {403, "no_ticket", true, "", "0s"},
		{410, "", false, "", "0s"}, {404, "not_found", false, "", "0s"}, {408, "slow", false, "", "0s"},
		{429, "rate", false, "7", "7s"}, {503, "unknown", false, "1", "1s"}, {503, "", false, "9999", "1h0m0s"},
		{502, "", false, "-1", "0s"}, {200, "", false, "", "0s"}, {307, "", false, "", "0s"},
	} {
		asked := 0
		in := to(t, func(w http.ResponseWriter, r *http.Request) {
			asked++
			w.Header().Set("Retry-After", c.retry)
			w.Header().Set("Location", "/elsewhere")
			if c.reason == "" {
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, `{"reason":"late"}`)
				return
			}
			problem.Write(w, c.status, c.reason, "because")
		})
		err := in.Report(t.Context(), ingress.Report{Epoch: 1, Body: []byte("report")})
		var no *ingress.Refusal
		if !errors.As(err, &no) || no.Status != c.status || no.Reason != c.reason || no.Final() != c.final ||
			no.After.String() != c.after || asked != 1 {
			t.Errorf("%d %s: %+v, final %v, asked %d times", c.status, c.reason, no, err, asked)
		}
	}
}

// Whatever answers, the client's memory is bounded, and what is cut off is no answer.
func TestOddAnswersAreErrors(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", wire.SealedReplySize+1)
	in := to(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/enrolments":
			_, _ = io.WriteString(w, long)
		case "/v1/announcements":
			_, _ = w.Write(wire.AppendFrame(nil, []byte("whole"))[:7])
		case "/v1/keys":
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "short")
		}
	})
	if _, err := in.Enrol(t.Context(), []byte("request")); !errors.Is(err, ingress.ErrUnreachable) {
		t.Errorf("a reply that is too long: %v", err)
	}
	if chain, err := in.Announcements(t.Context(), 0, 0, 0); !errors.Is(err, wire.ErrMalformed) || chain != nil {
		t.Errorf("announcements that are cut off: %d, %v", len(chain), err)
	}
	if _, err := in.Keys(t.Context()); !errors.Is(err, ingress.ErrUnreachable) {
		t.Errorf("keys that are cut off: %v", err)
	}
	for _, bad := range []string{"", "riffle.example", "ftp://riffle.example", "https://", ":"} {
		if _, err := ingress.New(bad, nil); err == nil {
			t.Errorf("the address %q is taken", bad)
		}
	}
}

// The wait is asked for in whole seconds, within what an ingress takes.
func TestTheWaitIsWhatAnIngressTakes(t *testing.T) {
	t.Parallel()
	var asked string
	in := to(t, func(_ http.ResponseWriter, r *http.Request) { asked = r.URL.RawQuery })
	for wait, want := range map[time.Duration]string{-1: "0", 2500 * time.Millisecond: "2", time.Hour: "30"} {
		if _, err := in.Announcements(t.Context(), 3, 1, wait); err != nil || asked != "after=3.1&wait="+want {
			t.Errorf("%v: %s, %v", wait, asked, err)
		}
	}
}
