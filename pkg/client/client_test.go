package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/pkg/client"
)

func TestCallsAreRepeatedWhileNobodyIsThere(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch asked.Add(1) {
		case 1: // no policy yet
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2: // dies with the answer on its way
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_ = c.Close()
		default:
			if r.URL.EscapedPath() != "/v1/devices/a%2Fb/decisions" {
				t.Errorf("path %q", r.URL.EscapedPath())
			}
			_, _ = io.WriteString(w, `{"arm": 2, "token": "x", "sampled": true, "reason": "sampled"}`)
		}
	}))
	defer server.Close()
	moved := false
	at := func() (string, error) {
		if !moved { // a process that is not running has no address
			moved = true
			return "", errors.New("not running")
		}
		return server.URL, nil
	}
	c := client.New(client.Options{Pause: time.Millisecond})
	defer c.Close()
	d, calls, err := c.Decide(t.Context(), at, "a/b", []byte("{}"))
	if err != nil || d.Arm != 2 || !d.Sampled {
		t.Fatalf("decision %+v, %v", d, err)
	}
	// No address, no policy, no answer, an answer. Only the third leaves open what the randomizer did.
	if calls.Attempts != 4 || !calls.Unsure {
		t.Errorf("%+v", calls)
	}
}

func TestRefusalsAreFinal(t *testing.T) {
	for _, test := range []struct {
		status  int
		body    string
		reason  string
		expired bool
	}{
		{http.StatusGone, `{"error":"expired_token","detail":"too late"}`, "expired_token", true},
		{http.StatusUnprocessableEntity, `{"error":"bad_arms","detail":"no arms"}`, "bad_arms", false},
		{http.StatusBadGateway, "<html>a proxy</html>", "", false},
	} {
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked++
			w.WriteHeader(test.status)
			_, _ = io.WriteString(w, test.body)
		}))
		c := client.New(client.Options{Pause: time.Millisecond})
		calls, err := c.Reward(t.Context(), client.At(server.URL), "token", 1)
		server.Close()
		var r *client.Refusal
		if !errors.As(err, &r) || r.Status != test.status || r.Reason != test.reason || r.Detail == "" {
			t.Errorf("%d: %v", test.status, err)
		}
		if asked != 1 || calls.Attempts != 1 || calls.Unsure || client.Expired(err) != test.expired {
			t.Errorf("%d: asked %d times, %+v, expired %v", test.status, asked, calls, client.Expired(err))
		}
	}
}

func TestGivingUp(t *testing.T) {
	c := client.New(client.Options{Pause: time.Millisecond, GiveUp: 20 * time.Millisecond})
	gone := errors.New("nobody home")
	if _, _, err := c.Decide(t.Context(), func() (string, error) { return "", gone }, "a", nil); !errors.Is(err, gone) {
		t.Errorf("gave up with %v", err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	over := errors.New("over")
	stop(over)
	if _, _, err := c.Decide(ctx, func() (string, error) { return "", gone }, "a", nil); !errors.Is(err, over) {
		t.Errorf("stopped with %v", err)
	}
}
