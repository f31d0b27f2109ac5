// Package client is how an app talks to the randomizer on its side: it asks for decisions and tells rewards over the local HTTP API.
//
// A call is repeated while the randomizer cannot be reached or has no policy yet, as when it is being restarted. That is safe: a
// device is enrolled once however often it is asked, and the same reward may be told again. It is not quite free: a decision whose
// answer got lost is made again without its token, so that the device reports the null record (see [Calls.Unsure]).
//
// The client does not authenticate and does not encrypt: it is for loopback, or for whatever stands in front of the API.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/riffle-dp/riffle/internal/randomizer"
)

// Defaults of Options.
const (
	DefaultTimeout = 10 * time.Second       // one attempt
	DefaultPause   = 200 * time.Millisecond // between attempts
	DefaultGiveUp  = time.Minute            // all attempts of one call
)

// Options of New.
type Options struct {
	Connections int           // kept open to each randomizer; 0: Go's default of 2
	Timeout     time.Duration // of one attempt; 0: DefaultTimeout
	Pause       time.Duration // between attempts; 0: DefaultPause
	GiveUp      time.Duration // after which a call that found nobody fails; 0: DefaultGiveUp; negative: after the first attempt
}

// Client calls randomizers. Safe for concurrent use.
type Client struct {
	o    Options
	http *http.Client
}

// New makes a client.
func New(o Options) *Client {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Pause <= 0 {
		o.Pause = DefaultPause
	}
	if o.GiveUp == 0 {
		o.GiveUp = DefaultGiveUp
	}
	return &Client{o, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: o.Connections}, Timeout: o.Timeout}}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Refusal is an answer that says no.
type Refusal struct {
	Status int    // of HTTP
	Reason string // as the API spells it; empty where something else than a randomizer answered
	Detail string // a sentence
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("the randomizer answered %d %s: %s", r.Status, r.Reason, r.Detail)
}

// away tells whether the refusal will pass: the randomizer knows no policy yet.
func (r *Refusal) away() bool { return r.Status == http.StatusServiceUnavailable }

// Base tells where the randomizer of a device is; it is asked before each attempt, because a randomizer that was restarted may be
// somewhere else. An error counts like one that cannot be reached.
type Base func() (string, error)

// At is a randomizer that stays where it is.
func At(base string) Base { return func() (string, error) { return base, nil } }

// Calls is what a call took.
type Calls struct {
	Attempts int
	Last     time.Duration // time of the last attempt
	// Unsure says that an attempt ended without an answer, so that the randomizer may have done what was asked of it without the
	// caller's knowing.
	Unsure bool
}

// Decide asks for a decision for a device. body is the request: see Arms. A *Refusal says no.
func (c *Client) Decide(ctx context.Context, at Base, device string, body []byte) (*randomizer.Decision, Calls, error) {
	d := new(randomizer.Decision)
	calls, err := c.post(ctx, at, "/v1/devices/"+url.PathEscape(device)+"/decisions", body, d)
	return d, calls, err
}

// Reward tells the reward of the decision with the token. A *Refusal says no: with Expired, the device reports without it.
func (c *Client) Reward(ctx context.Context, at Base, token string, reward float64) (Calls, error) {
	body, err := json.Marshal(map[string]any{"token": token, "reward": reward})
	if err != nil {
		return Calls{}, err
	}
	return c.RawReward(ctx, at, body)
}

// RawReward is Reward with a body of the caller's making.
func (c *Client) RawReward(ctx context.Context, at Base, body []byte) (Calls, error) {
	return c.post(ctx, at, "/v1/rewards", body, nil)
}

// Arms is the body of a request for a decision.
func Arms(arms [][]float64) ([]byte, error) { return json.Marshal(map[string]any{"arms": arms}) }

// Expired tells whether a reward came too late.
func Expired(err error) bool {
	var r *Refusal
	return errors.As(err, &r) && r.Status == http.StatusGone
}

// Status asks a randomizer how it is, once.
func (c *Client) Status(ctx context.Context, at Base) (s randomizer.Status, err error) {
	base, err := at()
	if err != nil {
		return s, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/status", nil)
	if err != nil {
		return s, err
	}
	return s, c.do(r, &s)
}

// post sends a body again and again while nobody is there.
func (c *Client) post(ctx context.Context, at Base, path string, body []byte, into any) (calls Calls, err error) {
	deadline := time.Now().Add(c.o.GiveUp)
	for {
		begin := time.Now()
		sent, err := c.attempt(ctx, at, path, body, into)
		calls.Attempts, calls.Last = calls.Attempts+1, time.Since(begin)
		var refused *Refusal
		if err == nil || errors.As(err, &refused) && !refused.away() {
			return calls, err
		}
		calls.Unsure = calls.Unsure || sent && refused == nil
		if ctx.Err() != nil {
			return calls, context.Cause(ctx)
		}
		if time.Now().After(deadline) {
			return calls, err
		}
		select {
		case <-ctx.Done():
			return calls, context.Cause(ctx)
		case <-time.After(c.o.Pause):
		}
	}
}

// attempt posts once; sent says that the randomizer may have the request.
func (c *Client) attempt(ctx context.Context, at Base, path string, body []byte, into any) (sent bool, err error) {
	base, err := at()
	if err != nil {
		return false, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	r.Header.Set("Content-Type", "application/json")
	return true, c.do(r, into)
}

func (c *Client) do(r *http.Request, into any) error {
	response, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it was read to its end
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		var said struct{ Error, Detail string }
		if json.Unmarshal(answer, &said) != nil || said.Error == "" {
			said.Detail = string(bytes.TrimSpace(answer))
		}
		return &Refusal{response.StatusCode, said.Error, said.Detail}
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}
