package audit

import (
	"cmp"
	"maps"
	"slices"

	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// keptEarly keeps what stands before everything else in the log of an analyzer that was a version before there were
// logs: such a version appended counts, and in the channel shares the sets that it accepted, and nothing else. Its
// successor appends the configuration, and the announcements with what was learned, behind them. So they wait here for
// the announcements of their rounds. It says whether it kept the statement.
func (c *checker) keptEarly(s *statement) bool {
	if c.begun {
		return false
	}
	switch s.value.(type) {
	case *wire.Counts, *wire.Accepted:
	default:
		return false
	}
	epoch, round, _ := s.at()
	if len(c.early) == 0 {
		c.report.note("The analyzer's log begins with %s, before its configuration, as that of a deployment whose analyzer "+
			"was of a version before there were logs. It is checked like all other counts, but that the configuration, and "+
			"the announcements of the rounds before it, are not younger than their counts cannot be seen from this log.", s.name)
	}
	at := roundID{epoch, round}
	c.early[at] = append(c.early[at], s)
	return true
}

// unconfigured says that there is no configuration where it must stand.
func (c *checker) unconfigured(s *statement) {
	c.wrong(ConfigurationMissing, s, "the first entry of the analyzer's log must be its configuration, from which with "+
		"the counts everything follows; so nothing can be recomputed. An analyzer of a version before there were logs has "+
		"none until a newer one goes on")
}

// catchUp takes what was kept of a round that is announced now.
func (c *checker) catchUp(a *plan.Announcement) error {
	at := roundID{a.Epoch, a.Round}
	kept := c.early[at]
	delete(c.early, at)
	for _, s := range kept {
		switch v := s.value.(type) {
		case *wire.Accepted:
			c.accepted(s, v)
		case *wire.Counts:
			if err := c.counted(s, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// leftEarly tells of what was kept and belongs to no round that was announced.
func (c *checker) leftEarly() {
	rounds := slices.SortedFunc(maps.Keys(c.early), func(a, b roundID) int {
		return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.round, b.round))
	})
	for i, at := range rounds {
		if first := c.early[at][0]; c.begun {
			c.wrong(OutOfOrder, first, "its round is nowhere announced in this log")
		} else if i == 0 {
			c.unconfigured(first)
		}
	}
}
