package analyzer

import (
	"fmt"

	"github.com/riffle-dp/riffle/internal/config"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
)

// dimension is the length of arms.
func (l LearnerSettings) dimension() int {
	if l.Dimension == 0 && l.optionFault() == nil {
		return l.Options * l.Context
	}
	return l.Dimension
}

// declared is the structure that the settings state.
func (l LearnerSettings) declared() (structure.Structure, error) {
	var s structure.Structure
	if l.optionFault() == nil {
		s = structure.Options(l.Options, l.Context)
	}
	more, err := structure.Parse(l.Structure)
	if err != nil {
		return nil, err
	}
	if s = append(s, more...); len(s) == 0 {
		return nil, nil
	}
	return s, s.Validate(l.dimension())
}

// structure is what is known of arms: what the schema of features says, or what the settings state.
func (s Settings) structure() (structure.Structure, error) {
	if schema, err := s.schema(); schema != nil || err != nil {
		if err != nil {
			return nil, err
		}
		return schema.Structure(), nil
	}
	return s.Learner.declared()
}

// optionFault says what is wrong with options and context.
func (l LearnerSettings) optionFault() error {
	switch {
	case l.Options == 0 && l.Context == 0:
		return nil
	case l.Options < 2 || l.Context < 1 || l.Options > glm.MaxDimension || l.Context > glm.MaxDimension/l.Options:
		must := fmt.Sprintf("must be at least 2, of a context of at least 1 number, and in all at most %d with",
			glm.MaxDimension)
		return config.Conflict("options", l.Options, must, "context", l.Context)
	}
	return nil
}

// armFaults lists what is wrong with what is said of arms.
func (l LearnerSettings) armFaults() (faults []error) {
	if err := l.optionFault(); err != nil {
		faults = append(faults, err)
	}
	switch d := l.dimension(); {
	case d == 0 && len(faults) > 0: // that of the options
	case d == 0:
		faults = append(faults, config.Wrong("dimension", d, "must be set, unless options and context are"))
	case d < 1 || d > glm.MaxDimension:
		must := fmt.Sprintf("must be between 1 and %d", glm.MaxDimension)
		faults = append(faults, config.Wrong("dimension", d, must))
	case l.Options > 0 && len(faults) == 0 && l.Options*l.Context > d:
		must := fmt.Sprintf("must be at least %d, which is options times context, with", l.Options*l.Context)
		faults = append(faults, config.Conflict("dimension", d, must, "options", l.Options))
	}
	if _, err := l.declared(); err != nil && len(faults) == 0 {
		faults = append(faults, refusal("structure", l.Structure, err, structure.ErrInvalid))
	}
	return faults
}
