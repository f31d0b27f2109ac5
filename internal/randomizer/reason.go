package randomizer

import (
	"errors"
	"net/http"

	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Why a person is not sampled.
const (
	Sampled        outcome.Reason = "sampled"
	FinalPolicy    outcome.Reason = "final_policy"     // learning is over
	PlanRefused    outcome.Reason = "plan_refused"     // the host's limits rule the plan out
	RecordUsed     outcome.Reason = "record_used"      // the ledger allows no further record of this person
	RoundsUnderWay outcome.Reason = "rounds_under_way" // the epoch is past its enrolment
	CohortFull     outcome.Reason = "cohort_full"
	Unreachable    outcome.Reason = "shuffler_unreachable"
	NotAdmitted    outcome.Reason = "not_admitted" // the shuffler refused for another reason
	HostFull       outcome.Reason = "host_full"    // all places that the host's credential covers are taken
	DryRun         outcome.Reason = "dry_run"      // the host enrols nobody: api.dry_run
	// Where panels are drawn. Whether a device is in one does not depend on what it decides.
	NotDrawn   outcome.Reason = "not_drawn"   // the device is not in the epoch's panel, or that is not known yet
	WindowOver outcome.Reason = "window_over" // its report of the epoch is due
	ReportFull outcome.Reason = "report_full" // its report holds as many decisions as it can
	// The host's state is older than what the host has done: none of its devices takes part any more. Also of promised
	// reports.
	StateRolledBack outcome.Reason = "state_rolled_back"
)

// What can become of a promised report besides being sent.
const (
	// the epoch ended before the report's time, or before the broker had room for it; also before a wish was answered
	EpochOver  outcome.Reason = "epoch_over"
	BadPlan    outcome.Reason = "bad_plan"   // a later round broke the plan: the device drops out
	Unsendable outcome.Reason = "unsendable" // the broker refuses it for good
	NoRoom     outcome.Reason = "no_room"    // the broker has no room for it now: tried again
)

// Why a request of an app is refused.
const (
	NoPolicy outcome.Reason = "no_policy"
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

// Reasons lists why a promised report may not be sent, or not at once.
func Reasons() []outcome.Reason {
	return []outcome.Reason{EpochOver, BadPlan, Unsendable, NoRoom, StateRolledBack}
}

// EnrolmentReasons lists why a device that asks the shuffler for a slot gets none, or why it is asked again.
func EnrolmentReasons() []outcome.Reason {
	return []outcome.Reason{CohortFull, Unreachable, NotAdmitted, EpochOver, StateRolledBack, Internal}
}

// AnnouncementReasons lists why an announcement may not be followed. Under PlanRefused its policy decides, and no
// device is enrolled.
func AnnouncementReasons() []outcome.Reason { return append(KeySetReasons(), PlanRefused) }

// KeySetReasons lists why a set of the shuffler's keys may not be taken.
func KeySetReasons() []outcome.Reason {
	all := []outcome.Reason{Rewound}
	for _, r := range []wire.Refusal{wire.RefusalMalformed, wire.RefusalWrongDeployment, wire.RefusalBadSignature} {
		all = append(all, wireReason(r))
	}
	return all
}

func wireReason(r wire.Refusal) outcome.Reason { return outcome.Reason(r.String()) }

// announcementReason is why an announcement was refused.
func announcementReason(err error) outcome.Reason {
	if errors.Is(err, device.ErrRewound) {
		return Rewound
	}
	return wireReason(wire.Reason(err))
}

// apiReason is what the API calls an error of Decide or Reward.
func apiReason(err error) outcome.Reason {
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

// apiStatus is the HTTP status that goes with a reason.
var apiStatus = map[outcome.Reason]int{
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
}

// refuse answers with a reason. The connection ends with it, so that what may be left of the body is not waited for.
func refuse(w http.ResponseWriter, why outcome.Reason, detail string) {
	status := apiStatus[why]
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Connection", "close")
	answer(w, status, failure{why, detail, isDryRun(w)})
}
