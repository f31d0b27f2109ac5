package randomizer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/riffle-dp/riffle/internal/service/outcome"
)

// The host's API for apps on the same machine: HTTP and JSON.
//
//	POST /v1/devices/{device}/decisions   {"arms": [[...], ...]}          -> Decision
//	POST /v1/rewards                      {"token": "...", "reward": 1}   -> {"accepted": true}
//	GET  /v1/devices/{device}/ledger                                      -> the device's ledger, and in words
//	GET  /v1/status                                                       -> Status
//
// The device stands in the path because it must be known whatever the body holds: a body that cannot be read enrols the device
// just as a good one does, and the device reports the null record. Errors are {"error": reason, "detail": sentence}.
const (
	maxBody       = 4 << 20 // bytes of one request
	maxDeviceName = 128     // bytes of a device's name
)

// failure is the body of an error.
type failure struct {
	Error  outcome.Reason `json:"error"`
	Detail string         `json:"detail"`
}

// API is the handler of the app's requests. It has no authentication: serve it on loopback, or behind something that has.
func (h *Host) API() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/devices/{device}/decisions", h.serveDecision)
	mux.HandleFunc("POST /v1/rewards", h.serveReward)
	mux.HandleFunc("GET /v1/devices/{device}/ledger", h.serveLedger)
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, h.Status()) })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		answer(w, http.StatusNotFound, failure{NotFound, fmt.Sprintf("%s %s is not part of the API; see GET /v1/status, POST /v1/devices/{device}/decisions, POST /v1/rewards", r.Method, r.URL.Path)})
	})
	return mux
}

func (h *Host) serveDecision(w http.ResponseWriter, r *http.Request) {
	h.c.Decisions.Received(1)
	name := r.PathValue("device")
	if err := checkName(name); err != nil {
		h.c.Decisions.Refused(BadDevice, 1)
		refuse(w, BadDevice, err.Error())
		return
	}
	// The body is read before anyone is enrolled, so that a slow or broken body cannot delay enrolment by what it holds; it is only
	// looked at afterwards.
	body, readErr := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	// A client that goes away while its body is read, or before it has the answer, ends neither enrolment nor promise: who takes part
	// must not depend on what was in the body.
	d, err := h.Decide(context.WithoutCancel(r.Context()), name, func() ([][]float64, error) {
		if readErr != nil {
			return nil, readErr
		}
		var request struct {
			Arms [][]float64 `json:"arms"`
		}
		if err := decodeStrict(body, &request); err != nil {
			return nil, err
		}
		return request.Arms, nil
	})
	why := apiReason(err)
	switch { // whether the arms were any good is no part of this account, which anybody may see
	case d.Sampled:
		h.c.Decisions.Released(1)
	case err == nil || why == BadArms:
		h.c.Decisions.Refused(d.Reason, 1)
	default:
		h.c.Decisions.Refused(why, 1)
	}
	if err != nil {
		refuse(w, why, err.Error())
		return
	}
	answer(w, http.StatusOK, d)
}

func (h *Host) serveReward(w http.ResponseWriter, r *http.Request) {
	h.c.Rewards.Received(1)
	no := func(why outcome.Reason, detail string) {
		h.c.Rewards.Refused(why, 1)
		refuse(w, why, detail)
	}
	var request struct {
		Token  string   `json:"token"`
		Reward *float64 `json:"reward"`
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		err = decodeStrict(body, &request)
	}
	if err == nil && (request.Token == "" || request.Reward == nil) {
		err = errors.New(`want {"token": "...", "reward": a number}`)
	}
	if err != nil {
		no(BadRequest, err.Error())
		return
	}
	switch err := h.Reward(request.Token, *request.Reward); {
	case errors.Is(err, ErrToken):
		no(ExpiredToken, err.Error()+"; the device reports without this reward")
		return
	case err != nil:
		no(apiReason(err), err.Error())
		return
	case strings.HasPrefix(request.Token, unsampledToken):
		h.c.Rewards.Refused(NotSampled, 1)
	default:
		h.c.Rewards.Released(1)
	}
	answer(w, http.StatusOK, map[string]bool{"accepted": true})
}

func (h *Host) serveLedger(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("device")
	if err := checkName(name); err != nil {
		refuse(w, BadDevice, err.Error())
		return
	}
	ledger := h.Ledger(name)
	answer(w, http.StatusOK, map[string]any{"device": name, "ledger": ledger, "explanation": strings.Split(strings.TrimSpace(ledger.Explain()), "\n")})
}

func checkName(name string) error {
	if len(name) > maxDeviceName || !utf8.ValidString(name) {
		return fmt.Errorf("a device's name is at most %d bytes of UTF-8, this one has %d", maxDeviceName, len(name))
	}
	return nil
}

// decodeStrict reads one JSON value without unknown fields. Its errors name positions and fields, never values.
func decodeStrict(body []byte, into any) error {
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		var syntax *json.SyntaxError
		var kind *json.UnmarshalTypeError
		switch {
		case errors.As(err, &syntax):
			return fmt.Errorf("not JSON at byte %d", syntax.Offset)
		case errors.As(err, &kind):
			return fmt.Errorf("field %q must be a %s", kind.Field, kind.Type)
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return errors.New("the JSON ends too early")
		default:
			return errors.New("not the JSON that is expected: an unknown field?")
		}
	}
	if d.More() {
		return errors.New("more than one JSON value")
	}
	return nil
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a client that went away is no error of ours
}
