package randomizer

import (
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/internal/randomizer/api"
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
	HostFull                      = api.Full       // all places that the host's credential covers are taken
	OptedOut       outcome.Reason = "opted_out"    // the person is never sampled: see OptOut
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
	// the epoch ended before the report's time, or before the broker had room for it; also before a question was
	// answered
	EpochOver  outcome.Reason = "epoch_over"
	BadPlan    outcome.Reason = "bad_plan"   // a later round broke the plan: the device drops out
	Unsendable outcome.Reason = "unsendable" // the broker refuses it for good
	NoRoom     outcome.Reason = "no_room"    // the broker has no room for it now: tried again
)

// Reasons lists why a promised report may not be sent, or not at once.
func Reasons() []outcome.Reason {
	return []outcome.Reason{EpochOver, BadPlan, Unsendable, NoRoom, StateRolledBack}
}

// EnrolmentReasons lists why a device that asks the shuffler for a slot gets none, or why it is asked again.
func EnrolmentReasons() []outcome.Reason {
	return []outcome.Reason{CohortFull, Unreachable, NotAdmitted, EpochOver, StateRolledBack, api.Internal}
}

// AnnouncementReasons lists why an announcement may not be followed. Under PlanRefused its policy decides, and no
// device is enrolled.
func AnnouncementReasons() []outcome.Reason { return append(KeySetReasons(), PlanRefused) }

// KeySetReasons lists why a set of the shuffler's keys may not be taken.
func KeySetReasons() []outcome.Reason {
	all := []outcome.Reason{api.Rewound}
	for _, r := range []wire.Refusal{wire.RefusalMalformed, wire.RefusalWrongDeployment, wire.RefusalBadSignature} {
		all = append(all, wireReason(r))
	}
	return all
}

func wireReason(r wire.Refusal) outcome.Reason { return outcome.Reason(r.String()) }

// announcementReason is why an announcement was refused.
func announcementReason(err error) outcome.Reason {
	if errors.Is(err, device.ErrRewound) {
		return api.Rewound
	}
	return wireReason(wire.Reason(err))
}

// because is a reason with its explanation.
func because(r outcome.Reason, format string, v ...any) error {
	return fmt.Errorf("%w: %s", r, fmt.Sprintf(format, v...))
}

func reasonOf(err error) outcome.Reason {
	var r outcome.Reason
	errors.As(err, &r)
	return r
}

// optedOut is why somebody is not sampled who opted out.
var optedOut = because(OptedOut, "the person opted out: decisions are made by the policy, without exploration, and "+
	"nothing is learnt from them")

// dryRunMeans is what people are told of a host in dry run.
const dryRunMeans = "api.dry_run is on: this host decides with the announced policy, enrols nobody and sends nothing"

// notInDryRun is why a host in dry run samples nobody; why is what it would be otherwise, nil where the device would be
// asked for.
func notInDryRun(why error) error {
	if why != nil {
		return because(DryRun, "%s; without it: %v", dryRunMeans, why)
	}
	return because(DryRun, "%s", dryRunMeans)
}
