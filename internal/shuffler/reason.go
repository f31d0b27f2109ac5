package shuffler

import (
	"github.com/riffle-dp/riffle/internal/role/outcome"
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
