package cohort

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

type epoch struct {
	number    uint64
	size      uint32
	room      int // of devices that are not known yet, at the opening: nobody enrols beyond
	minimum   uint32
	timing    plan.Timing
	opened    time.Time
	planned   int // rounds
	slots     paged[slot]
	last      time.Time // when the last report of round 0 is due; opened before there is one
	slotOf    map[deviceKey]uint32
	visitors  hosts           // the installations that have a slot, while the epoch lasts
	held      paged[uint32]   // slots by host
	issued    map[sponsor]int // slots of installations by issuer
	largest   int             // that one sponsor holds
	rounds    []*round
	destroyed bool
	final     bool
	drawing   *drawing // nil where devices enrol as they arrive
}

type round struct {
	digest   Digest
	opened   time.Time
	layout   channel.Layout
	reports  reports
	excluded map[uint32]wire.Refusal // slots whose reports were taken out again, and why
	refused  map[wire.Refusal]uint64 // reports that were refused as they came, up to the commit
	outcome  wire.Outcome
	left     uint64 // messages that can have left before it was destroyed, at most
	done     bool   // the manifest is out
	adopted  *Adopted
}

// over reports whether nothing more can happen in the epoch.
func (e *epoch) over() bool {
	last := e.rounds[len(e.rounds)-1]
	return e.final || last.done && (e.destroyed || len(e.rounds) == e.planned)
}

// closing reports whether only the manifest of the epoch's last round is missing.
func (e *epoch) closing() bool {
	last := e.rounds[len(e.rounds)-1]
	return !e.final && !last.done && last.outcome != wire.Undecided && (e.destroyed || len(e.rounds) == e.planned)
}

// closed reports whether enrolment is over at the given time: of a panel, whether it is drawn.
func (e *epoch) closed(now time.Time) bool {
	if e.drawing != nil {
		return !e.awaiting()
	}
	limit := e.timing.Enrolment
	committed := e.rounds[0].outcome != wire.Undecided // whatever the clock says now
	full := e.slots.len() >= min(int(e.size), e.room)
	return e.final || committed || full || limit > 0 && !now.Before(e.opened.Add(limit))
}

// expected is how many devices may report in round n.
func (e *epoch) expected(n int) int {
	if n == 0 {
		return e.slots.len()
	}
	return e.rounds[n-1].reports.count
}

// dueAt is when the report of a slot is due.
func (e *epoch) dueAt(slot uint32) time.Time { return time.UnixMilli(e.slots.at(int(slot)).reportAt) }

func (e *epoch) window() time.Duration {
	return e.timing.RewardWindow
}

// jitter spreads report times over the slots by public randomness: it depends on the announcement and the slot alone.
func (e *epoch) jitter(slot uint32) time.Duration {
	spread := uint64(e.timing.Jitter.Milliseconds())
	h := sha256.Sum256(binary.BigEndian.AppendUint32(slices.Clone(e.rounds[0].digest[:]), slot))
	return time.Duration(binary.BigEndian.Uint64(h[:8])%(spread+1)) * time.Millisecond
}

// reported reports whether the report of a slot is admitted.
func (e *epoch) reported(slot uint32) bool {
	return e.rounds[0].reports.get(slot) != nil
}

// awaiting reports whether the epoch's panel is still to be drawn.
func (e *epoch) awaiting() bool { return e.drawing != nil && e.drawing.draw == nil }

// has reports whether these are the round's members.
func (r *round) has(members []channel.Member) bool {
	for _, m := range members {
		if a := r.reports.get(m.Slot); a == nil || a.sequence() != m.Sequence || a.digest != m.Digest {
			return false
		}
	}
	return len(members) == r.reports.count
}

// release describes round n with the reports that it has.
func (e *epoch) release(n int, minimum uint32) *Release {
	r := e.rounds[n]
	members := make([]channel.Member, 0, r.reports.count)
	for slot, a := range r.reports.each {
		members = append(members, channel.Member{Slot: slot, Sequence: a.sequence(), Digest: a.digest})
	}
	return &Release{
		Release: channel.Release{
			Epoch: e.number, Round: uint32(n), Announcement: r.digest, Layout: r.layout,
			First: e.rounds[0].digest, Minimum: max(e.minimum, minimum), Members: members,
		},
		Outcome: r.outcome, Enrolled: e.enrolled(), Refused: r.refusals(), Left: r.left,
	}
}

// enrolled is how many devices are in the epoch: those with slots here, or as many as its own manifest says of a round
// whose events are lost, for the manifests of an epoch agree on that.
func (e *epoch) enrolled() uint32 {
	n := uint32(e.slots.len())
	for _, r := range e.rounds {
		if r.adopted != nil {
			n = max(n, r.adopted.Enrolled)
		}
	}
	return n
}

// refusals are what a manifest of the round says of refused reports, by the journal alone.
func (r *round) refusals() (all []wire.Refused) {
	taken := map[wire.Refusal]uint32{}
	for _, why := range r.excluded {
		taken[why]++
	}
	for _, why := range wire.Refusals() {
		if n := r.refused[why] + uint64(taken[why]); n > 0 {
			all = append(all, wire.Refused{Reason: why, Reports: n, TakenOut: taken[why]})
		}
	}
	return all
}
