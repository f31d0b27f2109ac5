package planner

import (
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/pkg/privacy/calibrate"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Infeasible says which option cannot be met together with the others, and what would satisfy it.
type Infeasible struct {
	Option string `json:"option"`
	Cohort int    `json:"cohort,omitempty"` // number of the cohort, from 1
	People int    `json:"people,omitempty"` // in it
	Reason string `json:"reason"`
	Remedy string `json:"remedy"`
}

func (e *Infeasible) Error() string {
	what, remedy := e.Remedied()
	return what + "; " + remedy
}

// Remedied says apart what is wrong and what to do about it.
func (e *Infeasible) Remedied() (what, remedy string) {
	where := ""
	if e.Cohort > 0 {
		where = fmt.Sprintf("cohort %d of %d people: ", e.Cohort, e.People)
	}
	return fmt.Sprintf("no plan: %s%s cannot be met: %s", where, e.Option, e.Reason), e.Remedy
}

// explain puts a refusal of calibrate.Bits into the words of the options.
func (o Options) explain(err error, cohort, people, rounds int) error {
	var inner *calibrate.Infeasible
	if !errors.As(err, &inner) {
		return err
	}
	e := &Infeasible{Option: inner.Constraint, Cohort: cohort + 1, People: people, Reason: inner.Reason,
		Remedy: inner.Remedy}
	switch inner.Constraint {
	case "MaxMessages":
		e.Option = "--messages"
		if most, err := o.held(rounds); o.Bytes > 0 && (err != nil || o.MaxMessages <= 0 || most < o.MaxMessages) {
			e.Option = "--bytes"
			size := rounds * wire.EnvelopeSize((inner.Messages+rounds-1)/rounds*seal.BitSize)
			e.Reason += fmt.Sprintf("; sealed they are %d bytes, %d are allowed", size, o.Bytes)
			e.Remedy = fmt.Sprintf("allow %d bytes or a larger error", size)
		}
		if o.MeanMessages > 0 {
			e.Option = "--mean-messages"
		}
	case "VarianceRatio":
		e.Option = "--variance"
	case "MinCohort":
		e.Option = "--cohort with --drop-out, --honest and the minimum cohort"
	case "Cohort":
		e.Option = "--min-cohort"
	case "NoiseBits":
		e.Option = "--noise-bits"
	}
	return e
}
