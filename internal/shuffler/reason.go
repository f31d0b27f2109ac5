package shuffler

import (
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/role/status"
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Reasons of the shuffler's own.
const (
	// Destroyed: the report was admitted to a round that stayed below the minimum cohort.
	Destroyed outcome.Reason = "destroyed"
	// Ahead: the report is of a round that was announced to its device before it was announced here. It waits.
	Ahead outcome.Reason = "ahead"
	// Interrupted: the release could not be carried out to its end. It is tried again.
	Interrupted outcome.Reason = "interrupted"
)

// Reasons lists every reason for which the shuffler refuses something or tries it again.
func Reasons() []outcome.Reason {
	var all []outcome.Reason
	for _, r := range wire.Refusals() {
		all = append(all, cohort.Reason(r))
	}
	return append(all, Destroyed, Ahead, Interrupted)
}

// Steps whose time is measured. Enrolment and admission include the wait for the disk.
const (
	stepEnrolment = "enrolment" // request to reply
	stepAdmission = "admission" // report to decision
	stepRelease   = "release"   // commitment to manifest
)

// Steps lists the steps whose time is measured.
func Steps() []string { return []string{stepEnrolment, stepAdmission, stepRelease} }

// shown is an outcome as people read it.
func shown(o wire.Outcome) string {
	if o == wire.Released {
		return status.Released
	}
	return status.Destroyed
}

// errFatal marks an error after which the shuffler must stop: its memory may be ahead of its journal.
var errFatal = errors.New("shuffler: cannot go on")

func fatal(err error) error { return fmt.Errorf("%w: %w", errFatal, err) }

// errBroker says that the broker shows less than this shuffler has seen, or something else.
var errBroker = errors.New("the broker's data was set back, or is another deployment's; " +
	"restore the newer data, or start a new deployment")

// errState says that the state folder is older than what the broker shows.
var errState = errors.New("the state folder is older than what this shuffler has signed: restored from a backup?")
