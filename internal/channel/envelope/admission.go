package envelope

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	devices "github.com/riffle-dp/riffle/pkg/channel"
)

// admission decides which envelopes of a round are counted. Of several envelopes of one device the first is.
type admission struct {
	remembered *channel.Participants // may be nil
	epoch      uint64
	drawn      *channel.Drawn
	sponsors   *channel.Sponsors

	who     []devices.Present // that are counted
	seen    map[devices.Participant]struct{}
	bad     int // envelopes that are refused
	refused map[outcome.Reason]int
}

func (c *Counting) admission(r *channel.Round, envelopes int) *admission {
	return &admission{
		remembered: c.Participants, epoch: r.Epoch, drawn: r.Drawn,
		sponsors: channel.NewSponsors(r, c.SponsorShare, c.Participants),
		who:      make([]devices.Present, 0, envelopes), seen: make(map[devices.Participant]struct{}, envelopes),
		refused: map[outcome.Reason]int{},
	}
}

// admits reports whether an envelope is counted that is the device's, unless it is refused already.
func (a *admission) admits(by devices.Present, refused outcome.Reason) bool {
	if refused == "" {
		refused = a.judge(by)
	}
	if refused != "" {
		a.bad++
		a.refused[refused]++
		return false
	}
	a.seen[by.Participant] = struct{}{}
	a.sponsors.Enter(by)
	a.who = append(a.who, by)
	return true
}

// judge is why no envelope of the device is counted any more; empty if one is.
func (a *admission) judge(by devices.Present) outcome.Reason {
	if _, twice := a.seen[by.Participant]; twice {
		return Repeated
	}
	if !a.drawn.Holds(by.Participant) {
		return NotDrawn
	}
	if a.remembered != nil {
		switch err := a.remembered.Check(a.epoch, by.Participant); {
		case errors.Is(err, channel.ErrNewcomer):
			return Newcomer
		case err != nil:
			return Earlier
		}
	}
	switch err := a.sponsors.Check(by); {
	case errors.Is(err, channel.ErrIssuerFull):
		return IssuerFull
	case err != nil:
		return SponsorShare
	}
	return ""
}

// reasons says how many envelopes were refused for which reason.
func (a *admission) reasons() string {
	var all []string
	for why, n := range a.refused {
		all = append(all, fmt.Sprintf("%s: %d", why, n))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
