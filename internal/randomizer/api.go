package randomizer

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

	"github.com/riffle-dp/riffle/internal/role/outcome"
)

// The host's API for apps on the same machine: HTTP and JSON.
//
//	POST /v1/devices/{device}             (no body)                       -> {"device", "registered"}
//	POST /v1/devices/{device}/decisions   {"arms": [[...], ...]}          -> Decision
//	                                      {"context": {...}, "arms": [{"id": "...", ...}, ...]}, with a schema
//	POST /v1/rewards                      {"token": "...", "reward": 1}   -> Acceptance
//	GET  /v1/devices/{device}/ledger                                      -> the device's ledger, and in words
//	GET  /v1/status                                                       -> Status
//	GET  /v1/schema                                                       -> the announced schema of features
//	POST /v1/check                        as a decision's                 -> Check, in dry run alone
//
// A decision may also have "default", the arm that is played today, and "exclude", a list of arms that must not be
// played for this person: by index or, with a schema, also by id.
//
// The device stands in the path because it must be known whatever the body holds: a body that cannot be read enrols the
// device just as a good one does, and the device reports the null record. Everything that is refused on a request's
// header is refused before enrolment, and everything about its body after it. Errors are {"error": reason, "detail":
// sentence}.
//
// What this cannot keep apart are requests that an app pipelines on one connection: the second header stands behind the
// first body, and a refusal ends the connection. README tells apps not to.

const maxDeviceName = 128 // bytes of a device's name

// failure is the body of an error.
type failure struct {
	Error  outcome.Reason `json:"error"`
	Detail string         `json:"detail"`
	DryRun bool           `json:"dry_run,omitempty"`
}

// API is the handler of the app's requests. It has no authentication: serve it on loopback, or behind something that
// has.
func (h *Host) API() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/devices/{device}", h.guarded(h.serveDevice))
	mux.HandleFunc("POST /v1/devices/{device}/decisions", h.guarded(h.serveDecision))
	mux.HandleFunc("POST /v1/rewards", h.guarded(h.serveReward))
	mux.HandleFunc("GET /v1/devices/{device}/ledger", h.guarded(h.serveLedger))
	mux.HandleFunc("GET /v1/status", h.guarded(
		func(w http.ResponseWriter, _ *http.Request, _ time.Time) {
			answer(w, http.StatusOK, h.Status())
		}))
	mux.HandleFunc("GET /v1/schema", h.guarded(h.serveSchema))
	mux.HandleFunc("POST /v1/check", h.guarded(h.serveCheck))
	mux.HandleFunc("OPTIONS /v1/", h.guarded(preflight))
	mux.HandleFunc("/", h.guarded(func(w http.ResponseWriter, r *http.Request, _ time.Time) {
		refuse(w, NotFound,
			fmt.Sprintf("%s %s is not part of the API; see GET /v1/status, POST /v1/devices/{device}, "+
				"POST /v1/devices/{device}/decisions, "+
				"POST /v1/rewards", r.Method, r.URL.Path))
	}))
	if h.c.DryRun {
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
	maxConnections = 2 * (maxBodies + maxEnrolling)
)

// server serves the API with bounds on what connections may take.
func (h *Host) server() *http.Server {
	var open atomic.Int64
	return &http.Server{
		Handler: h.API(), ReadHeaderTimeout: readHeaderTime, WriteTimeout: writeTime, IdleTimeout: idleTime,
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
func (h *Host) serveDevice(w http.ResponseWriter, r *http.Request, _ time.Time) {
	name := r.PathValue("device")
	if err := checkName(name); err != nil {
		refuse(w, BadDevice, err.Error())
		return
	}
	if name == "decisions" || name == "ledger" { // what is left of a path whose device has no name
		refuse(w, NotFound, "the device has no name")
		return
	}
	registered, why, err := h.Register(name)
	if err != nil {
		refuse(w, apiReason(err), err.Error())
		return
	}
	said := map[string]any{"device": name, "registered": registered}
	if why != nil && !registered {
		said["reason"], said["detail"] = reasonOf(why), why.Error()
	}
	answerMap(w, said)
}

func (h *Host) serveDecision(w http.ResponseWriter, r *http.Request, by time.Time) {
	name := r.PathValue("device")
	if err := checkName(name); err != nil {
		refuse(w, BadDevice, err.Error())
		return
	}
	arms, forget := h.reading(w, r, by)
	defer forget()
	// A client that goes away, before or after its body is read, ends neither enrolment nor promise: who takes part
	// must not depend on what is in the body.
	d, err := h.DecideAmong(context.WithoutCancel(r.Context()), name, arms)
	if err != nil {
		why := apiReason(err)
		h.spoilt(why, &h.malformed.Decisions)
		refuse(w, why, err.Error())
		return
	}
	answer(w, http.StatusOK, d)
}

func (h *Host) serveReward(w http.ResponseWriter, r *http.Request, by time.Time) {
	var request struct {
		Token  string   `json:"token"`
		Reward *float64 `json:"reward"`
	}
	body, forget, err := h.bodies.open(w, r, maxReward, 1, by)
	if err == nil {
		err = readStruct(body, &request)
		forget()
	}
	if err == nil && (request.Token == "" || request.Reward == nil) {
		err = badBody(`want {"token": "...", "reward": a number}`)
	}
	if err != nil {
		why := apiReason(err)
		h.spoilt(why, &h.malformed.Rewards)
		refuse(w, why, err.Error())
		return
	}
	accepted, err := h.Reward(request.Token, *request.Reward)
	switch {
	case errors.Is(err, ErrToken):
		refuse(w, ExpiredToken, err.Error()+"; the device reports without this reward")
		return
	case err != nil:
		refuse(w, apiReason(err), err.Error())
		return
	}
	answer(w, http.StatusOK, accepted)
}

func (h *Host) serveLedger(w http.ResponseWriter, r *http.Request, _ time.Time) {
	name := r.PathValue("device")
	if err := checkName(name); err != nil {
		refuse(w, BadDevice, err.Error())
		return
	}
	state := h.stateOf(name)
	ledger := state.Ledger
	explanation := strings.Split(strings.TrimSpace(ledger.Explain()), "\n")
	if c := h.channel(); c != "" && len(ledger.Entries) > 0 { // the deployment keeps it
		explanation = append(explanation, fmt.Sprintf("Reports take the channel %s: the guarantee %s.", c, c.RestsOn()))
	}
	said := map[string]any{"device": name, "ledger": ledger, "explanation": explanation}
	if state.Registration != nil {
		said["registered"], said["panels"] = state.Registered(), state.Panels()
	}
	answerMap(w, said)
}

func (h *Host) serveSchema(w http.ResponseWriter, _ *http.Request, _ time.Time) {
	h.mu.Lock()
	a := h.current
	h.mu.Unlock()
	switch {
	case a == nil:
		refuse(w, NoPolicy, ErrNoPolicy.Error())
	case a.Features == nil:
		refuse(w, NotFound, "this deployment announces no schema of features: apps send arms as vectors")
	default:
		answer(w, http.StatusOK, json.RawMessage(a.Features.Canonical()))
	}
}

func checkName(name string) error {
	if len(name) > maxDeviceName || !utf8.ValidString(name) {
		return fmt.Errorf("a device's name is at most %d bytes of UTF-8, this one has %d", maxDeviceName, len(name))
	}
	return nil
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
