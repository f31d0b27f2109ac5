// Package api is what a randomizer serves to apps on the same machine.
package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/listen"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/problem"
)

// The host's API for apps on the same machine: HTTP and JSON.
//
// openapi.json describes it, and tests hold the handler to it.
//
// The device is in the path because it must be known whatever the body holds: a body that cannot be read enrols the
// device just as a good one does, and the device reports the null record. Everything that is refused on a request's
// header is refused before enrolment, and everything about its body after it. Refusals are problem details.
//
// What this cannot keep apart are requests that an app pipelines on one connection: the second header comes after the
// first body, and a refusal ends the connection. README tells apps not to.

const maxDeviceName = 128 // bytes of a device's name

// failure is the body of a refusal.
type failure struct {
	problem.Details
	DryRun bool `json:"dry_run,omitempty"`
}

// Host is what decides for the devices behind the API.
type Host interface {
	// Register names a device to the host. registered reports whether the shuffler has confirmed it; why says for what
	// reason the device cannot be registered now.
	Register(name string) (registered bool, why, err error)
	// DecideAmong makes a decision for a device. It calls arms, which reads the body, after the device was enrolled.
	DecideAmong(ctx context.Context, name string, arms func(*device.Announced) (Arms, error)) (Decision, error)
	// Check says in dry run whether a body can be decided about, and what a host that is not in dry run would do.
	Check(arms func(*device.Announced) (Arms, error)) (d Decision, would string, err error)
	// Erase forgets all of a device but what it has promised and spent. A promised report leaves as the null record.
	Erase(name string) error
	// OptOut has a device never be sampled again, or lifts that. A promised report leaves as the null record.
	OptOut(name string, out bool) error
	OptedOut(name string) bool
	// Reward takes the reward of a decision.
	Reward(token string, reward float64) (Acceptance, error)
	// State is a device's; that of one that has done nothing, where the device is not known.
	State(name string) device.State
	// Announced is the announcement in force, nil before the first one.
	Announced() *device.Announced
	// Channel is the deployment's, empty before it is known.
	Channel() plan.Channel
	// Status describes the host; the API adds Malformed.
	Status() Status
}

// API serves a host to apps.
type API struct {
	host   Host
	access Access
	dryRun bool // each answer says so
	bodies *bodies

	// Requests whose body could not be used.
	decisions, rewards atomic.Int64
}

// Access says whose requests are served.
type Access struct {
	role.Callers
	Tokens *listen.Tokens // one of which each request must bear; nil: none
}

// New is the API of a host, for those requests and within those bounds. dryRun is the host's.
func New(h Host, access Access, dryRun bool, b Bounds) *API {
	return &API{host: h, access: access, dryRun: dryRun, bodies: newBodies(b)}
}

// Handler is the handler of the app's requests. Without tokens it has no authentication: serve it on loopback, or
// behind something that has.
func (a *API) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/devices/{device}", a.guard(a.serveDevice))
	mux.HandleFunc("DELETE /v1/devices/{device}", a.guard(a.serveErasure))
	mux.HandleFunc("PUT /v1/devices/{device}/opt-out", a.guard(a.serveOptOut(true)))
	mux.HandleFunc("DELETE /v1/devices/{device}/opt-out", a.guard(a.serveOptOut(false)))
	mux.HandleFunc("POST /v1/devices/{device}/decisions", a.guard(a.serveDecision))
	mux.HandleFunc("POST /v1/rewards", a.guard(a.serveReward))
	mux.HandleFunc("GET /v1/devices/{device}/ledger", a.guard(a.serveLedger))
	mux.HandleFunc("GET /v1/status", a.guard(
		func(w http.ResponseWriter, _ *http.Request, _ time.Time) {
			s := a.host.Status()
			s.Malformed = Malformed{int(a.decisions.Load()), int(a.rewards.Load())}
			answer(w, http.StatusOK, s)
		}))
	mux.HandleFunc("GET /v1/schema", a.guard(a.serveSchema))
	mux.HandleFunc("POST /v1/check", a.guard(a.serveCheck))
	mux.HandleFunc("GET /v1/openapi.json", a.guard(serveDescription))
	mux.HandleFunc("OPTIONS /v1/", a.guard(preflight))
	mux.HandleFunc("/", a.guard(func(w http.ResponseWriter, r *http.Request, _ time.Time) {
		refuse(w, NotFound,
			fmt.Sprintf("%s %s is not part of the API; see GET /v1/openapi.json", r.Method, r.URL.Path))
	}))
	if a.dryRun {
		return inDryRun(mux)
	}
	return mux
}

const (
	// readHeaderTime bounds how long a client may take to send a request's header.
	readHeaderTime = 5 * time.Second
	// writeTime is from a request's header to the last byte of its answer.
	writeTime = 3 * bodyTime
	// idleTime is how long a connection may wait for its next request.
	idleTime = time.Minute
	// maxHeader bounds the bytes of a header.
	maxHeader = 16 << 10
	// maxConnections leaves room for new ones when as many as may wait for bodies and for enrolment do.
	maxConnections = 2 * (maxBodies + MaxEnrolling)
)

// Server serves the API with bounds on what connections may take.
func (a *API) Server() *http.Server {
	var open atomic.Int64
	return &http.Server{
		Handler: a.Handler(), ReadHeaderTimeout: readHeaderTime, WriteTimeout: writeTime, IdleTimeout: idleTime,
		MaxHeaderBytes: maxHeader,
		ErrorLog:       log.New(io.Discard, "", 0),
		ConnState: func(c net.Conn, s http.ConnState) {
			switch s {
			case http.StateNew:
				if open.Add(1) > maxConnections {
					_ = c.Close() // the client sees it
				}
			case http.StateClosed, http.StateHijacked:
				open.Add(-1)
			}
		},
	}
}

// serveDevice names a device to the host.
func (a *API) serveDevice(w http.ResponseWriter, r *http.Request, _ time.Time) {
	name, ok := named(w, r)
	if !ok {
		return
	}
	registered, why, err := a.host.Register(name)
	if err != nil {
		refuse(w, reasonFor(err), err.Error())
		return
	}
	said := map[string]any{"device": name, "registered": registered}
	if why != nil && !registered {
		var reason outcome.Reason
		errors.As(why, &reason)
		said["reason"], said["detail"] = reason, why.Error()
	}
	answerMap(w, said)
}

func (a *API) serveDecision(w http.ResponseWriter, r *http.Request, by time.Time) {
	name, ok := named(w, r)
	if !ok {
		return
	}
	arms, forget := a.reading(w, r, by)
	defer forget()
	// A client that goes away, before or after its body is read, ends neither enrolment nor promise: who takes part
	// must not depend on what is in the body.
	d, err := a.host.DecideAmong(context.WithoutCancel(r.Context()), name, arms)
	if err != nil {
		why := reasonFor(err)
		spoilt(why, &a.decisions)
		refuse(w, why, err.Error())
		return
	}
	answer(w, http.StatusOK, d)
}

func (a *API) serveReward(w http.ResponseWriter, r *http.Request, by time.Time) {
	var request struct {
		Token  string   `json:"token"`
		Reward *float64 `json:"reward"`
	}
	body, forget, err := a.bodies.open(w, r, maxReward, 1, by)
	if err == nil {
		err = readStruct(body, &request)
		forget()
	}
	if err == nil && (request.Token == "" || request.Reward == nil) {
		err = badBody(`want {"token": "...", "reward": a number}`)
	}
	if err != nil {
		why := reasonFor(err)
		spoilt(why, &a.rewards)
		refuse(w, why, err.Error())
		return
	}
	accepted, err := a.host.Reward(request.Token, *request.Reward)
	switch {
	case errors.Is(err, ErrToken):
		refuse(w, ExpiredToken, err.Error()+"; the device reports without this reward")
		return
	case err != nil:
		refuse(w, reasonFor(err), err.Error())
		return
	}
	answer(w, http.StatusOK, accepted)
}

func (a *API) serveLedger(w http.ResponseWriter, r *http.Request, _ time.Time) {
	name, ok := named(w, r)
	if !ok {
		return
	}
	state := a.host.State(name)
	ledger := state.Ledger
	explanation := strings.Split(strings.TrimSpace(ledger.Explain()), "\n")
	if c := a.host.Channel(); c != "" && len(ledger.Entries) > 0 { // the deployment keeps it
		explanation = append(explanation, fmt.Sprintf("Reports take the channel %s: the guarantee %s.", c, c.RestsOn()))
	}
	said := map[string]any{"device": name, "ledger": ledger, "explanation": explanation}
	if state.Registration != nil {
		said["registered"], said["panels"] = state.Registered(), state.Panels()
	}
	if a.host.OptedOut(name) {
		said["opted_out"] = true
	}
	answerMap(w, said)
}

func (a *API) serveSchema(w http.ResponseWriter, _ *http.Request, _ time.Time) {
	announced := a.host.Announced()
	switch {
	case announced == nil:
		refuse(w, NoPolicy, ErrNoPolicy.Error())
	case announced.Features == nil:
		refuse(w, NotFound, "this deployment announces no schema of features: apps send arms as vectors")
	default:
		answer(w, http.StatusOK, json.RawMessage(announced.Features.Canonical()))
	}
}

// named is the device's name in a request's path. Where that has none, the request is refused.
func named(w http.ResponseWriter, r *http.Request) (name string, ok bool) {
	name = r.PathValue("device")
	last := strings.HasSuffix(r.Pattern, "{device}")
	switch {
	case len(name) > maxDeviceName || !utf8.ValidString(name):
		refuse(w, BadDevice,
			fmt.Sprintf("a device's name is at most %d bytes of UTF-8, this one has %d", maxDeviceName, len(name)))
	case last && (name == "decisions" || name == "ledger" || name == "opt-out"): // what is left of a longer path
		refuse(w, NotFound, "the device has no name")
	default:
		return name, true
	}
	return "", false
}

func answerMap(w http.ResponseWriter, said map[string]any) {
	if isDryRun(w) {
		said["dry_run"] = true
	}
	answer(w, http.StatusOK, said)
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a client that went away is no error of ours
}
