package shuffler

import (
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// refusedAsItCame counts a report that was refused on its delivery.
func (s *Shuffler) refusedAsItCame(d *bus.Delivery, why wire.Refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusals.Count(s.state, d.Epoch, d.Round, d.Redelivered, why)
}
