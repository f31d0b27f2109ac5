package shuffler

import (
	"fmt"

	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// reason is a refusal as error, metric label and log field.
func reason(r wire.Refusal) outcome.Reason { return outcome.Reason(r.String()) }

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
		all = append(all, reason(r))
	}
	return append(all, Destroyed, Ahead, Interrupted)
}

// Refused is a refusal with its reason and a sentence on what led to it. The sentence never holds a payload.
type Refused struct {
	Reason wire.Refusal
	Detail string
}

func (r *Refused) Error() string { return fmt.Sprintf("%s: %s", reason(r.Reason), r.Detail) }

// Unwrap is the reason as metrics and logs have it.
func (r *Refused) Unwrap() error { return reason(r.Reason) }

func refuse(reason wire.Refusal, format string, a ...any) error {
	return &Refused{reason, fmt.Sprintf(format, a...)}
}
