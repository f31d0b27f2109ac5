package shuffler

import (
	"errors"
	"fmt"
)

// enrolmentsCondition is the readiness condition that the devices that report are those that were enrolled.
const enrolmentsCondition = "enrolments"

// errStrangers says that the journal seems to lack enrolments.
var errStrangers = errors.New("devices report that this shuffler's journal never enrolled: the state folder may be " +
	"older than what hosts were promised; restore the newest copy")

// enrolments is the readiness condition of that name. It is met again once the epoch is over. It logs once for each
// epoch.
func (s *admission) enrolments() error {
	s.mu.Lock()
	epoch, told, first := s.strangers.Told(s.state)
	s.mu.Unlock()
	if !told {
		return nil
	}
	if first {
		s.c.Log.Error().Err(errStrangers).Uint64("epoch", epoch).
			Msg("reports of devices that were never enrolled are refused")
	}
	return fmt.Errorf("epoch %d: %w", epoch, errStrangers)
}
