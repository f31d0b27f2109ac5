package randomizer

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/device"
)

// A host in dry run is for whoever builds an app. It decides with the announced policy, enrols and registers nobody,
// and sends nothing; each of its answers says so. It alone answers POST /v1/check, which says whether a body can be
// decided about. On any other host, an app that could ask so about a person's real arms and then choose whether to ask
// for a decision would make who takes part depend on the arms.

// dryRunHeader is in each answer of a host in dry run, whatever the answer is.
const dryRunHeader = "Riffle-Dry-Run"

// dryRunMeans is what people are told of a host in dry run.
const dryRunMeans = "api.dry_run is on: this host decides with the announced policy, enrols nobody and sends nothing"

// errDryRunState refuses a state folder of real devices: what they promised would not be sent.
var errDryRunState = errors.New("the state folder has devices that took part, and a host in dry run (api.dry_run) keeps " +
	"no promise: give it a state folder of its own")

// inDryRun marks the answers of a handler.
func inDryRun(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(dryRunHeader, "true")
		next.ServeHTTP(w, r)
	})
}

// isDryRun tells whether an answer is one of a host in dry run.
func isDryRun(w http.ResponseWriter) bool { return w.Header().Get(dryRunHeader) != "" }

// rehearsed is why a host in dry run samples nobody; why is what it would be otherwise, nil where the device would be
// asked for.
func rehearsed(why error) error {
	if why != nil {
		return because(DryRun, "%s; without it: %v", dryRunMeans, why)
	}
	return because(DryRun, "%s", dryRunMeans)
}

// Check is the answer to whether a body can be decided about.
type Check struct {
	OK     bool           `json:"ok"`
	Error  outcome.Reason `json:"error,omitempty"`  // with which a decision about this body is refused; empty where OK
	Detail string         `json:"detail,omitempty"` // what is wrong
	Would  string         `json:"would"`            // what a host does with it that is not in dry run
	// Decision is one by the announced policy; nil unless OK.
	Decision *Decision `json:"decision,omitempty"`
	DryRun   bool      `json:"dry_run"` // always true
}

// Check judges a decision's body against the announced policy and schema. Errors are ErrNoPolicy, device.ErrRewound,
// and ErrNotDryRun where the host is not in dry run.
func (h *Host) Check(arms func(a *device.Announced) (Arms, error)) (Check, error) {
	if !h.c.DryRun {
		return Check{}, ErrNotDryRun
	}
	_, why, err := h.enrolling()
	if err != nil {
		return Check{}, err
	}
	d, err := h.decide("", arms)
	c := Check{OK: err == nil, Would: h.wouldDo(why, err), DryRun: true}
	switch {
	case errors.Is(err, ErrArms):
		c.Error, c.Detail = apiReason(err), err.Error()
	case err != nil:
		return Check{}, err
	default:
		c.Decision = &d
	}
	return c, nil
}

// wouldDo says what becomes of a device whose decision has the error bad, nil where there is none. why says for what
// reason none is asked for now; nil where one is.
func (h *Host) wouldDo(why, bad error) string {
	device := "Its device is asked for, and reports if it is given a slot."
	switch {
	case why != nil:
		device = fmt.Sprintf("Its device is not asked for: %v.", why)
	case h.drawsPanels():
		device = "Its device is registered, and keeps the decision if it is in the epoch's panel."
		if bad != nil {
			device = "Its device is registered, and keeps nothing of it."
		}
	case bad != nil:
		device = "Its device is asked for all the same, and if it is given a slot it reports the null record: who takes " +
			"part never depends on a body, and the person's record is used."
	}
	if bad != nil {
		return "A decision about this body is refused. " + device
	}
	return "A decision about this body is made. " + device
}

func (h *Host) serveCheck(w http.ResponseWriter, r *http.Request, by time.Time) {
	arms, forget := h.reading(w, r, by)
	defer forget()
	checked, err := h.Check(arms)
	if err != nil {
		refuse(w, apiReason(err), err.Error())
		return
	}
	answer(w, http.StatusOK, checked)
}

// reading reads a decision's body, once; forget gives its room back.
func (h *Host) reading(w http.ResponseWriter, r *http.Request, by time.Time) (
	arms func(*device.Announced) (Arms, error), forget func(),
) {
	done := func() {}
	return func(a *device.Announced) (Arms, error) {
		limit, weight := decisionRoom(a.Policy.Dimension, a.Features)
		body, opened, err := h.bodies.open(w, r, limit, weight, by)
		if err != nil {
			return Arms{}, err
		}
		done = opened
		return readDecision(body, a.Policy.Dimension, a.Features)
	}, func() { done() }
}

// Malformed counts requests whose body could not be used, since the process began. It is for the app alone: whether a
// body was any good shows nowhere else.
type Malformed struct {
	Decisions int `json:"decisions"` // their devices took part as others do, with the null record
	Rewards   int `json:"rewards"`
}

// spoilt counts a request that was refused for its body, in a number of h.malformed.
func (h *Host) spoilt(why outcome.Reason, count *int) {
	switch why {
	case BadArms, BadRequest, BodyTooLarge, BodyTooSlow:
		h.mu.Lock()
		defer h.mu.Unlock()
		*count++
	}
}
