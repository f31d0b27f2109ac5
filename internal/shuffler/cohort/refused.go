package cohort

import (
	"fmt"

	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Refused is a refusal with its reason and a sentence on what led to it. The sentence never holds a payload.
type Refused struct {
	Reason wire.Refusal
	Detail string
}

func (r *Refused) Error() string { return fmt.Sprintf("%s: %s", Reason(r.Reason), r.Detail) }

// Unwrap is the reason as metrics and logs have it.
func (r *Refused) Unwrap() error { return Reason(r.Reason) }

func Refuse(reason wire.Refusal, format string, a ...any) error {
	return &Refused{reason, fmt.Sprintf(format, a...)}
}

// reason is a refusal as error, metric label and log field.
func Reason(r wire.Refusal) outcome.Reason { return outcome.Reason(r.String()) }
