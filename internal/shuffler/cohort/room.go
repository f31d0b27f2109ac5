package cohort

import (
	"errors"
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Reports wait at the broker until their cohort is released, and the broker keeps only so many of one host, and of all
// (riffle broker provision). A report for which it has no room is lost when its round is over, and with too many of
// them the cohort is destroyed, after its people have spent what they had. So nobody is enrolled whose report may find
// no room: an epoch whose whole cohort has none is not opened, and no host holds more slots, or registers more devices
// of which more could be drawn, than the broker keeps reports of one host.

// Room is how many reports the broker keeps.
type Room struct {
	PerHost int64 // reports of one host that may wait; below 1: no limit
	Size    int64 // bytes of one report
	Bytes   int64 // of all reports that wait; below 1: no limit
}

// Stores notes what the broker says of its room. It counts from the next decision on.
func (s *space) Stores(r Room) { s.stores = r }

// PerHost is how many reports of one host the broker keeps.
func (s *space) PerHost() int {
	if n := s.stores.PerHost; n > 0 && n < math.MaxInt {
		return int(n)
	}
	return math.MaxInt
}

// ErrRoom says that the broker cannot keep the reports of an epoch.
var ErrRoom = errors.New("nobody is enrolled")

// fits refuses an epoch whose reports the broker cannot keep, as ErrRoom.
func (s *State) fits(a *plan.Announcement, l channel.Layout) error {
	no := func(format string, v ...any) error {
		return fmt.Errorf("%w: %w", ErrRoom, Refuse(wire.RefusalCapacity, format, v...))
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
	case a.Plan.Panel != nil && min(largest, int(a.Cohort.Size)) > s.PerHost():
		return no("the panel of epoch %d may have %d devices of one host, and the broker keeps %d "+
			"reports of one host: raise --max-host-reports of riffle broker provision, and restart the shuffler",
			a.Epoch, min(largest, int(a.Cohort.Size)), s.PerHost())
	}
	return nil
}

// crowded reports whether a host's devices are as many as the broker keeps reports of one host, so that no further one
// may be in the latest epoch's cohort. held are those that are.
func (s *State) crowded(held int) bool {
	return held >= s.PerHost() && int64(s.epoch.size) > s.stores.PerHost
}
