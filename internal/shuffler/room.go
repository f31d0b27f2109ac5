package shuffler

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Reports wait at the broker until their cohort is released, and the broker keeps only so many of one host, and of all
// (riffle broker provision). A report for which it has no room is lost when its round is over, and with too many of
// them the cohort is destroyed, after its people have spent what they had. So nobody is enrolled whose report may find
// no room: an epoch whose whole cohort has none is not opened, and no host holds more slots, or registers more devices
// of which more could be drawn, than the broker keeps reports of one host.

// look asks the broker how many reports it keeps. What it says counts from the next decision on.
func (s *Shuffler) look(ctx context.Context) error {
	room, err := s.c.Bus.ReportRoom(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.state.stores = room
	s.mu.Unlock()
	return nil
}

// lookFor is look before an epoch opens.
func (s *Shuffler) lookFor(ctx context.Context, o *opening) error {
	s.mu.Lock()
	opens := !o.Final && o.Round == 0 && (s.state.epoch == nil || s.state.epoch.number < o.Epoch)
	s.mu.Unlock()
	if !opens {
		return nil
	}
	return s.look(ctx)
}

// perHost is how many reports of one host the broker keeps.
func (s *State) perHost() int {
	if n := s.stores.PerHost; n > 0 && n < math.MaxInt {
		return int(n)
	}
	return math.MaxInt
}

// errRoom says that the broker cannot keep the reports of an epoch.
var errRoom = errors.New("nobody is enrolled")

// fits refuses an epoch whose reports the broker cannot keep, as errRoom.
func (s *State) fits(a *plan.Announcement, l channel.Layout) error {
	no := func(format string, v ...any) error {
		return fmt.Errorf("%w: %w", errRoom, refuse(wire.RefusalCapacity, format, v...))
	}
	size := int64(wire.EnvelopeSize(l.Size()))
	largest := 0 // devices that one host registered
	for _, n := range s.of {
		largest = max(largest, n)
	}
	switch room := s.stores; {
	case room.Size > 0 && size > room.Size:
		return no("a report of epoch %d has %d bytes, and the broker keeps none of more than %d: "+
			"raise --max-report-size of riffle broker provision, and restart the shuffler", a.Epoch, size, room.Size)
	case room.Bytes > 0 && size > room.Bytes/int64(a.Cohort.Size):
		return no("the %d reports of epoch %d's cohort have %d bytes each, and the broker keeps "+
			"%d bytes of reports: raise --max-report-bytes of riffle broker provision, and restart the shuffler",
			a.Cohort.Size, a.Epoch, size, room.Bytes)
	case a.Plan.Panel != nil && min(largest, int(a.Cohort.Size)) > s.perHost():
		return no("the panel of epoch %d may have %d devices of one host, and the broker keeps %d "+
			"reports of one host: raise --max-host-reports of riffle broker provision, and restart the shuffler",
			a.Epoch, min(largest, int(a.Cohort.Size)), s.perHost())
	}
	return nil
}

// homeless tells people of an epoch whose reports the broker cannot keep.
func (s *Shuffler) homeless(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.warnings = append(s.warnings, fmt.Sprintf("%v.", why))
}

// crowded tells whether a host's devices are as many as the broker keeps reports of one host, so that no further one
// may be in the latest epoch's cohort. held are those that are.
func (s *State) crowded(held int) bool {
	return held >= s.perHost() && int64(s.epoch.size) > s.stores.PerHost
}

// narrow warns of a cohort that one host cannot fill.
func (s *Shuffler) narrow(a *plan.Announcement) {
	s.mu.Lock()
	most := s.state.perHost()
	s.mu.Unlock()
	if a.Final || int64(a.Cohort.Size) <= int64(most) {
		return
	}
	s.c.Log.Warn().Uint64("epoch", a.Epoch).Uint32("size", a.Cohort.Size).Int("host_reports", most).
		Str(outcome.Field, string(reason(wire.RefusalHostShare))).
		Msg("the broker keeps fewer reports of one host than the cohort has places: a host gets no more slots than that, and " +
			"the cohort fills only if there are hosts enough; raise --max-host-reports of riffle broker provision")
}

// narrowWarning is what people are told of such a cohort, "" of any other. The lock is held.
func (s *Shuffler) narrowWarning(f Filling) string {
	most := s.state.perHost()
	if int64(f.Size) <= int64(most) {
		return ""
	}
	return fmt.Sprintf("The cohort of epoch %d has %d places, and the broker keeps %d reports of one host: a host gets no "+
		"more slots than that, and the cohort fills only if there are hosts enough. Raise --max-host-reports of riffle "+
		"broker provision; the shuffler looks once a minute.", f.Epoch, f.Size, most)
}
