package shuffler

import (
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// reason is a refusal as error, metric label and log field.
func reason(r wire.Refusal) outcome.Reason { return outcome.Reason(r.String()) }

// Reasons of the shuffler's own.
const (
	Destroyed   outcome.Reason = "destroyed"   // admitted to a round that stayed below the minimum cohort
	Ahead       outcome.Reason = "ahead"       // of a round that was announced to its device before it was announced here: waits
	Interrupted outcome.Reason = "interrupted" // a release that could not be carried out to its end: tried again
)

// Reasons lists every reason for which the shuffler refuses something or tries it again.
func Reasons() []outcome.Reason {
	var all []outcome.Reason
	for _, r := range wire.Refusals() {
		all = append(all, reason(r))
	}
	return append(all, Destroyed, Ahead, Interrupted)
}
