package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"
)

// says answers every request with these bytes.
type says struct {
	status int
	body   []byte
}

func (s says) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: s.status, Body: io.NopCloser(bytes.NewReader(s.body)), Header: http.Header{}}, nil
}

// FuzzAnswer has something answer in the randomizer's place. Every call returns an answer that is the JSON that came,
// or an error that says why, and never both.
func FuzzAnswer(f *testing.F) {
	f.Add(http.StatusOK,
		[]byte(`{"arm":2,"token":"x","sampled":true,"reason":"sampled","reward_by":"2026-01-01T00:00:00Z"}`))
	f.Add(http.StatusOK, []byte(`{"deployment":"d","epsilon_alone":1,"panel":{}}`))
	f.Add(http.StatusOK, []byte(`<html>a proxy</html>`))
	f.Add(http.StatusGone, []byte(`{"reason":"expired_token","detail":"too late"}`))
	f.Add(http.StatusBadGateway, []byte(`<html>a proxy</html>`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		if status < 200 || status > 599 { // net/http gives no others
			return
		}
		c := New(Options{Pause: time.Nanosecond, GiveUp: -1})
		c.http.Transport = says{status, body}
		at := At("http://randomizer")
		check := func(answer any, none bool, err error) {
			var refused *Refusal
			switch {
			case none != (err != nil):
				t.Fatalf("%+v, %v", answer, err)
			case err == nil && (status != http.StatusOK || !json.Valid(body)):
				t.Fatalf("status %d with %q is an answer", status, body)
			case err != nil && status == http.StatusOK && !errors.Is(err, ErrUnreachable),
				err != nil && status != http.StatusOK && (!errors.As(err, &refused) || refused.Status != status):
				t.Fatalf("status %d: %v", status, err)
			}
		}
		d, _, err := c.Decide(t.Context(), at, "a", [][]float64{{1}})
		check(d, d == nil, err)
		a, _, err := c.Reward(t.Context(), at, "token", 1)
		check(a, a == nil, err)
		s, err := c.Status(t.Context(), at)
		check(s, s == nil, err)
		l, err := c.Ledger(t.Context(), at, "a")
		check(l, l == nil, err)
	})
}
