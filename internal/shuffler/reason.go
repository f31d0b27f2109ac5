package shuffler

import (
	"strings"

	"github.com/riffle-dp/riffle/internal/role/outcome"
	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
)

// reason is a refusal as error, metric label and log field: REFUSAL_COHORT_FULL is cohort_full.
func reason(r rifflev1.Refusal) outcome.Reason {
	return outcome.Reason(strings.ToLower(strings.TrimPrefix(r.String(), "REFUSAL_")))
}

// Reasons of the shuffler's own.
const (
	Destroyed   outcome.Reason = "destroyed"   // admitted to a round that stayed below the minimum cohort
	Ahead       outcome.Reason = "ahead"       // of a round that was announced to its device before it was announced here: waits
	Interrupted outcome.Reason = "interrupted" // a release that could not be carried out to its end: tried again
)

// Reasons lists every reason for which the shuffler refuses something or tries it again.
func Reasons() []outcome.Reason {
	var all []outcome.Reason
	for n := int32(1); ; n++ {
		if _, ok := rifflev1.Refusal_name[n]; !ok {
			return append(all, Destroyed, Ahead, Interrupted)
		}
		all = append(all, reason(rifflev1.Refusal(n)))
	}
}
