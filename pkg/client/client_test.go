package client_test

import (
	"context"
	"errors"
	"go/build"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/pkg/client"
)

func TestCallIsRepeatedUntilItIsAnswered(t *testing.T) {
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
	d, calls, err := c.Decide(t.Context(), at, "a/b", [][]float64{{1}})
	if err != nil || d.Arm != 2 || !d.Sampled {
		t.Fatalf("decision %+v, %v", d, err)
	}
	// No address, no policy, no answer, an answer. Only the third leaves open what the randomizer did.
	if calls.Attempts != 4 || !calls.Unsure {
		t.Errorf("%+v", calls)
	}
}

func TestRefusalIsFinal(t *testing.T) {
	for _, test := range []struct {
		status int
		body   string
		reason client.Reason
	}{
		{http.StatusGone, `{"reason":"expired_token","detail":"too late"}`, client.ExpiredToken},
		{http.StatusUnprocessableEntity, `{"reason":"bad_arms","detail":"no arms"}`, client.BadArms},
		{http.StatusBadGateway, "<html>a proxy</html>", ""},
	} {
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked++
			w.WriteHeader(test.status)
			_, _ = io.WriteString(w, test.body)
		}))
		c := client.New(client.Options{Pause: time.Millisecond})
		_, calls, err := c.Reward(t.Context(), client.At(server.URL), "token", 1)
		server.Close()
		var r *client.Refusal
		if !errors.As(err, &r) || r.Status != test.status || r.Reason != test.reason || r.Detail == "" {
			t.Errorf("%d: %v", test.status, err)
		}
		if !errors.Is(err, test.reason) || errors.Is(err, client.ExpiredToken) != (test.status == http.StatusGone) {
			t.Errorf("%d: %v", test.status, err)
		}
		if asked != 1 || calls.Attempts != 1 || calls.Unsure {
			t.Errorf("%d: asked %d times, %+v", test.status, asked, calls)
		}
	}
}

func TestClientGivesUp(t *testing.T) {
	c := client.New(client.Options{Pause: time.Millisecond, GiveUp: 20 * time.Millisecond})
	gone := errors.New("no address")
	away := func() (string, error) { return "", gone }
	_, _, err := c.Decide(t.Context(), away, "a", nil)
	if !errors.Is(err, gone) || !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("gave up with %v", err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	over := errors.New("over")
	stop(over)
	if _, _, err := c.Decide(ctx, away, "a", nil); !errors.Is(err, over) {
		t.Errorf("stopped with %v", err)
	}
}

// An app that links the client links nothing else of this module, nor of any other.
func TestClientImportsTheStandardLibraryOnly(t *testing.T) {
	p, err := build.ImportDir(".", 0)
	if err != nil || len(p.Imports) == 0 {
		t.Fatal(p.Imports, err)
	}
	for _, path := range p.Imports {
		if first, _, _ := strings.Cut(path, "/"); strings.Contains(first, ".") {
			t.Errorf("it imports %s", path)
		}
	}
}

// Whatever answers without end in a randomizer's place does not fill the app's memory.
func TestAnEndlessAnswerIsNotRead(t *testing.T) {
	var sent atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for block := make([]byte, 1<<16); r.Context().Err() == nil; {
			n, err := w.Write(block)
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	c := client.New(client.Options{GiveUp: -1, Timeout: time.Minute})
	defer c.Close()
	if _, err := c.Status(t.Context(), client.At(server.URL)); !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("an endless answer: %v", err)
	}
	if n := sent.Load(); n > 64<<20 { // what the sockets hold is sent, too
		t.Errorf("%d bytes were sent", n)
	}
}
