package api

import (
	"errors"
	"maps"
	"net/http"
	"slices"

	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/problem"
)

// Why a request of an app is refused.
const (
	Unauthorized outcome.Reason = "unauthorized"
	TokensLost   outcome.Reason = "tokens_unreadable"
	Full         outcome.Reason = "host_full" // also of a decision: the host can keep no more devices
	NoPolicy     outcome.Reason = "no_policy"
	// also of an announcement or a key set: it does not follow the ones seen before
	Rewound      outcome.Reason = "rewound"
	BadDevice    outcome.Reason = "bad_device"
	BadArms      outcome.Reason = "bad_arms"
	BadRequest   outcome.Reason = "bad_request"
	BodyTooLarge outcome.Reason = "body_too_large"
	BodyTooSlow  outcome.Reason = "body_too_slow"
	Busy         outcome.Reason = "busy" // too many other requests are being served
	// What a browser would send for a page that has no business here, refused on the header.
	ForeignHost    = role.ForeignHost
	ForeignOrigin  = role.ForeignOrigin
	BadContentType = role.BadContentType

	ExpiredToken outcome.Reason = "expired_token"
	BadReward    outcome.Reason = "bad_reward"
	NotDryRun    outcome.Reason = "not_dry_run" // only a host in dry run says whether a body can be decided about
	NotFound     outcome.Reason = "not_found"
	Internal     outcome.Reason = "internal"
)

// reasonFor is the reason that an app is told for an error.
func reasonFor(err error) outcome.Reason {
	var bad badBody
	switch {
	case errors.Is(err, ErrBodyTooLarge):
		return BodyTooLarge
	case errors.Is(err, ErrBodyTooSlow):
		return BodyTooSlow
	case errors.Is(err, ErrBusy):
		return Busy
	case errors.Is(err, ErrArms):
		return BadArms
	case errors.As(err, &bad):
		return BadRequest
	case errors.Is(err, ErrFull):
		return Full
	case errors.Is(err, ErrNoPolicy):
		return NoPolicy
	case errors.Is(err, device.ErrRewound):
		return Rewound
	case errors.Is(err, ErrToken):
		return ExpiredToken
	case errors.Is(err, ErrNotDryRun):
		return NotDryRun
	case errors.Is(err, device.ErrReward):
		return BadReward
	}
	return Internal
}

// statuses is the HTTP status that goes with a reason.
var statuses = map[outcome.Reason]int{
	BadArms: http.StatusUnprocessableEntity, NoPolicy: http.StatusServiceUnavailable,
	Rewound:   http.StatusServiceUnavailable,
	BadDevice: http.StatusBadRequest, BadRequest: http.StatusBadRequest,
	ExpiredToken: http.StatusGone,
	BadReward:    http.StatusConflict, BodyTooLarge: http.StatusRequestEntityTooLarge,
	BodyTooSlow: http.StatusRequestTimeout,
	Busy:        http.StatusServiceUnavailable, ForeignHost: http.StatusForbidden, ForeignOrigin: http.StatusForbidden,
	BadContentType: http.StatusUnsupportedMediaType, NotFound: http.StatusNotFound,
	NotDryRun: http.StatusForbidden,
	Internal:  http.StatusInternalServerError,

	Unauthorized: http.StatusUnauthorized, TokensLost: http.StatusServiceUnavailable,
	Full: http.StatusInsufficientStorage,
}

// Reasons lists why a request may be refused.
func Reasons() []outcome.Reason { return slices.Sorted(maps.Keys(statuses)) }

// refuse answers with a reason. The connection ends with it, so that what may be left of the body is not waited for.
func refuse(w http.ResponseWriter, why outcome.Reason, detail string) {
	status := statuses[why]
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.Header().Set("Connection", "close")
	problem.Send(w, status, failure{problem.New(status, string(why), detail), isDryRun(w)})
}
