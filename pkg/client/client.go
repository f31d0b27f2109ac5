package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Defaults of Options.
const (
	DefaultTimeout = 10 * time.Second
	DefaultPause   = 200 * time.Millisecond
	DefaultGiveUp  = time.Minute
)

// maxAnswer is how many bytes of an answer are read. A ledger has some 300 bytes for each epoch in which its device
// reported; whatever answers with more than this is no randomizer, and must not fill the app's memory.
const maxAnswer = 4 << 20

// Options of New. Zero values select the defaults.
type Options struct {
	Connections int           // idle connections kept to each randomizer; 0: 2, as in net/http
	Timeout     time.Duration // limit of one attempt
	Pause       time.Duration // wait between two attempts
	GiveUp      time.Duration // time after which a failed attempt is not repeated; negative: the first is not repeated
	Token       string        // bearer token that every request shows; empty: none
	TLS         *tls.Config   // of https addresses; nil: the system's authorities vouch for the randomizer
}

// Client calls randomizers. It is safe for concurrent use.
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
	transport := &http.Transport{MaxIdleConnsPerHost: o.Connections, TLSClientConfig: o.TLS, DialContext: dial}
	return &Client{o, &http.Client{Transport: transport, Timeout: o.Timeout}}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Base returns the base URL of a device's randomizer. Every attempt asks it anew, because a randomizer that restarted
// may have another address. An error counts as a randomizer that cannot be reached.
type Base func() (string, error)

// At is the Base of a randomizer with a fixed address, for instance "http://127.0.0.1:8400", "https://riffle:8400" or,
// for a Unix socket, "unix:/run/riffle/api".
func At(base string) Base { return func() (string, error) { return base, nil } }

// Calls describes the attempts of one call.
type Calls struct {
	Attempts int           // at least 1
	Last     time.Duration // time that the last attempt took
	// Unsure says that an attempt ended without an answer, so the randomizer may have acted on it.
	Unsure bool
}

// Register names a device to its randomizer. Where cohorts are drawn from registered devices, it can be drawn from then
// on, so call it as early as the app knows the device; the first decision does it, too. Elsewhere it does nothing.
// Errors are those of Decide.
func (c *Client) Register(ctx context.Context, at Base, device string) (*Device, Calls, error) {
	return post[Device](ctx, c, at, "/v1/devices/"+url.PathEscape(device), nil)
}

// Decide asks for a decision for a device: which of the arms to play. Each arm is a vector of the deployment's
// dimension with norm at most 1; longer arms are scaled down. The error is a *Refusal, wraps ErrUnreachable, or is the
// context's cause.
func (c *Client) Decide(ctx context.Context, at Base, device string, arms [][]float64) (*Decision, Calls, error) {
	body, err := json.Marshal(map[string]any{"arms": arms})
	if err != nil {
		return nil, Calls{}, err
	}
	return c.DecideRaw(ctx, at, device, body)
}

// DecideRaw is Decide with the request's body as given. It is for tests of a randomizer.
func (c *Client) DecideRaw(ctx context.Context, at Base, device string, body []byte) (*Decision, Calls, error) {
	return post[Decision](ctx, c, at, devicePath(device, "decisions"), body)
}

// Reward tells the reward of the decision with the token. It is refused as ExpiredToken after the reward window: the
// device then reports without it. Errors are those of Decide.
func (c *Client) Reward(ctx context.Context, at Base, token string, reward float64) (*Acceptance, Calls, error) {
	body, err := json.Marshal(map[string]any{"token": token, "reward": reward})
	if err != nil {
		return nil, Calls{}, err
	}
	return c.RewardRaw(ctx, at, body)
}

// RewardRaw is Reward with the request's body as given. It is for tests of a randomizer.
func (c *Client) RewardRaw(ctx context.Context, at Base, body []byte) (*Acceptance, Calls, error) {
	return post[Acceptance](ctx, c, at, "/v1/rewards", body)
}

// Ledger reads a device's ledger, in one attempt. A device that never asked for a decision has an empty one.
func (c *Client) Ledger(ctx context.Context, at Base, device string) (*Statement, error) {
	s, _, err := attempt[Statement](ctx, c, http.MethodGet, at, devicePath(device, "ledger"), nil)
	return s, err
}

// Erase has a randomizer forget a device, but for what it has spent and whether it opted out. A promised report leaves
// as the null record. Errors are those of Decide.
func (c *Client) Erase(ctx context.Context, at Base, device string) error {
	_, _, err := repeat[struct{}](ctx, c, http.MethodDelete, at, "/v1/devices/"+url.PathEscape(device), nil)
	return err
}

// OptOut has a device never be sampled again, or lifts that: its decisions are then made by the policy, without
// exploration. A promised report leaves as the null record. Errors are those of Decide.
func (c *Client) OptOut(ctx context.Context, at Base, device string, out bool) error {
	method := http.MethodPut
	if !out {
		method = http.MethodDelete
	}
	_, _, err := repeat[struct{}](ctx, c, method, at, devicePath(device, "opt-out"), nil)
	return err
}

// Status reads a randomizer's status, in one attempt.
func (c *Client) Status(ctx context.Context, at Base) (*Status, error) {
	s, _, err := attempt[Status](ctx, c, http.MethodGet, at, "/v1/status", nil)
	return s, err
}

func devicePath(device, what string) string {
	return "/v1/devices/" + url.PathEscape(device) + "/" + what
}

func post[T any](ctx context.Context, c *Client, at Base, path string, body []byte) (*T, Calls, error) {
	return repeat[T](ctx, c, http.MethodPost, at, path, body)
}

// repeat repeats a request until it is answered or the client gives up. The answer is nil where there is an error.
func repeat[T any](ctx context.Context, c *Client, method string, at Base, path string, body []byte) (
	*T, Calls, error,
) {
	var calls Calls
	deadline := time.Now().Add(c.o.GiveUp)
	for {
		begin := time.Now()
		answer, sent, err := attempt[T](ctx, c, method, at, path, body)
		calls.Attempts, calls.Last = calls.Attempts+1, time.Since(begin)
		var refused *Refusal
		if err == nil || errors.As(err, &refused) && !refused.passing() {
			return answer, calls, err
		}
		calls.Unsure = calls.Unsure || sent && refused == nil
		if ctx.Err() == nil && time.Now().After(deadline) {
			return nil, calls, err
		}
		select {
		case <-ctx.Done():
			return nil, calls, context.Cause(ctx)
		case <-time.After(c.o.Pause):
		}
	}
}

// attempt makes one request; sent says that the randomizer may have received it. The answer is nil where there is an
// error.
func attempt[T any](
	ctx context.Context, c *Client, method string, at Base, path string, body []byte,
) (answer *T, sent bool, err error) {
	unreachable := func(err error) (*T, bool, error) { return nil, sent, fmt.Errorf("%w: %w", ErrUnreachable, err) }
	base, err := at()
	if err != nil {
		return unreachable(err)
	}
	socket, local := strings.CutPrefix(base, "unix:")
	if local {
		base = "http://" + hex.EncodeToString([]byte(socket)) + localSuffix
	}
	request, err := http.NewRequestWithContext(ctx, method, base+path, bytes.NewReader(body))
	if err != nil {
		return unreachable(err)
	}
	if local {
		request.Host = "localhost"
	}
	if c.o.Token != "" {
		request.Header.Set("Authorization", "Bearer "+c.o.Token)
	}
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
	}
	sent = true
	response, err := c.http.Do(request)
	if err != nil {
		return unreachable(err)
	}
	defer func() { _ = response.Body.Close() }() // it was read to its end, or is of no use
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err == nil && len(text) > maxAnswer {
		err = fmt.Errorf("an answer of more than %d bytes", maxAnswer)
	}
	if err != nil {
		return unreachable(err)
	}
	switch {
	case response.StatusCode == http.StatusNoContent && (method == http.MethodPut || method == http.MethodDelete):
		return new(T), sent, nil
	case response.StatusCode == http.StatusOK:
		answer = new(T)
		if err := json.Unmarshal(text, answer); err != nil {
			return unreachable(err) // something else answers in the randomizer's place
		}
		return answer, sent, nil
	}
	var said struct { // problem details: RFC 9457
		Reason Reason
		Detail string
	}
	if json.Unmarshal(text, &said) != nil || said.Reason == "" {
		said.Detail = string(bytes.TrimSpace(text))
	}
	return nil, sent, &Refusal{response.StatusCode, said.Reason, said.Detail}
}

// localSuffix ends the host of a URL that stands for a Unix socket, whose path is before it in hexadecimal digits.
const localSuffix = ".unix.invalid"

// dial connects to a host, or to the Unix socket that one stands for.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	host, _, _ := net.SplitHostPort(address)
	if path, local := strings.CutSuffix(host, localSuffix); local {
		socket, err := hex.DecodeString(path)
		if err != nil {
			return nil, err
		}
		return d.DialContext(ctx, "unix", string(socket))
	}
	return d.DialContext(ctx, network, address)
}
