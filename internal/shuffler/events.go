package shuffler

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Event is one decision of the shuffler, as its journal keeps it. Exactly one field is set. No event holds a sealed
// report, or anything from inside one but its digest.
type Event struct {
	Snapshot   *Snapshot   `json:"snapshot,omitempty"`
	Opened     *Opened     `json:"opened,omitempty"`
	Registered *Registered `json:"registered,omitempty"`
	Pooled     *Pooled     `json:"pooled,omitempty"`
	Drawn      *Drawn      `json:"drawn,omitempty"`
	Enrolled   *Enrolled   `json:"enrolled,omitempty"`
	Admitted   *Admitted   `json:"admitted,omitempty"`
	Excluded   *Excluded   `json:"excluded,omitempty"` // out of the open round, before its membership is fixed
	Committed  *Committed  `json:"committed,omitempty"`
	Rejected   *Excluded   `json:"rejected,omitempty"` // out of a committed release, by its channel
	Finished   *Finished   `json:"finished,omitempty"`
	Adopted    *Adopted    `json:"adopted,omitempty"`
	Passed     *Passed     `json:"passed,omitempty"`
	Keys       *Keys       `json:"keys,omitempty"`
}

// Opened records the first announcement of a round.
type Opened struct {
	At             int64  `json:"at_ms"` // by the shuffler's clock, in milliseconds of the Unix epoch
	Epoch          uint64 `json:"epoch"`
	Round          uint32 `json:"round"`
	Digest         []byte `json:"digest"`
	Size           uint32 `json:"size"`
	Minimum        uint32 `json:"minimum"`
	Rounds         int    `json:"rounds"`
	channel.Layout        // its fields stand here, in the journal too
	Timing         Timing `json:"timing"`
	Final          bool   `json:"final,omitempty"`
	// Of panels only.
	Panel      *PanelTerms `json:"panel,omitempty"`
	Commitment []byte      `json:"commitment,omitempty"` // of the analyzer, to its contribution to the seed
}

// Timing is the announced timing in milliseconds.
type Timing struct {
	RewardWindow uint32 `json:"reward_window"`
	Jitter       uint32 `json:"jitter"`
	Grace        uint32 `json:"grace"`
	RoundWindow  uint32 `json:"round_window"`
	Enrolment    uint32 `json:"enrolment"`
}

// Enrolled gives the next slot of the open cohort to a device.
type Enrolled struct {
	Host     []byte `json:"host"`
	Device   uint32 `json:"device"`
	ReportAt int64  `json:"report_at_ms"` // by the shuffler's clock
	Nonce    uint32 `json:"nonce"`        // of the device's wish
}

// Admitted takes a report into the open round.
type Admitted struct {
	Round    uint32 `json:"round"`
	Slot     uint32 `json:"slot"`
	Digest   []byte `json:"digest"`
	Sequence uint64 `json:"sequence"`
}

// Excluded takes admitted reports out of a round again. Their slots are given up.
type Excluded struct {
	Round uint32   `json:"round"`
	Slots []uint32 `json:"slots"`
	// Reasons are why, one for each slot.
	Reasons []wire.Refusal `json:"reasons"`
}

// Committed fixes a round's membership and outcome. A second one can only turn a release into a destruction.
type Committed struct {
	Round   uint32       `json:"round"`
	Outcome wire.Outcome `json:"outcome"`
	// Left is how many messages of a release can have left before it is destroyed, at most.
	Left uint64 `json:"left,omitempty"`
	// Refused are the reports of the round that this process had refused as they came, by reason. The first one counts.
	Refused map[wire.Refusal]uint64 `json:"refused,omitempty"`
}

// Finished records that the round's manifest is out.
type Finished struct {
	Round uint32 `json:"round"`
}

// Adopted ends a round as the shuffler's own manifest says that it ended, where the events that led there are lost.
type Adopted struct {
	Round    uint32       `json:"round"`
	Outcome  wire.Outcome `json:"outcome"`
	Enrolled uint32       `json:"enrolled"`
	Reports  uint32       `json:"reports"`
	Left     uint64       `json:"left,omitempty"` // as in Committed
	// Members says that the reports admitted so far are those of the manifest. Otherwise no device is known to have
	// reported, and none can report in a later round of the epoch.
	Members bool `json:"members,omitempty"`
}

// Passed records how far the shuffler's clock has come, so that the next process goes on from there.
type Passed struct {
	At int64 `json:"at_ms"`
}

// Keys records the number of a set of public keys before it is published.
type Keys struct {
	Number uint64 `json:"number"`
	Digest []byte `json:"digest"` // SHA-256 over the keys
}

// openedBy is the event of an announcement that is opened now.
func openedBy(a *plan.Announcement, d Digest, l channel.Layout, now time.Time) *Event {
	return &Event{Opened: &Opened{
		At: now.UnixMilli(), Epoch: a.Epoch, Round: a.Round, Digest: d[:], Size: a.Cohort.Size,
		Minimum: a.Cohort.Minimum, Rounds: len(a.Plan.Rounds), Layout: l, Timing: timingOf(a.Timing), Final: a.Final,
		Panel: termsOf(a.Plan), Commitment: a.Commitment,
	}}
}

func timingOf(t plan.Timing) Timing {
	ms := func(d time.Duration) uint32 { return uint32(d.Milliseconds()) }
	return Timing{ms(t.RewardWindow), ms(t.Jitter), ms(t.Grace), ms(t.RoundWindow), ms(t.Enrolment)}
}

func (t Timing) announced() plan.Timing {
	d := func(ms uint32) time.Duration { return time.Duration(ms) * time.Millisecond }
	return plan.Timing{
		RewardWindow: d(t.RewardWindow), Jitter: d(t.Jitter), Grace: d(t.Grace), RoundWindow: d(t.RoundWindow),
		Enrolment: d(t.Enrolment),
	}
}

// Encode returns the journal's form of the event.
func (ev *Event) Encode() []byte {
	b, err := json.Marshal(ev)
	if err != nil { // no field of an event can fail to marshal
		panic(err)
	}
	return b
}

// newerVersion is what to do about a journal that this version cannot read.
const newerVersion = "a newer version of Riffle wrote it. Start that version or a later one with this state folder; " +
	"an older one cannot go on with it"

// unknownField says what an error of decoding means, where it is about a field that this version does not know.
func unknownField(err error) error {
	if strings.Contains(err.Error(), "unknown field") { // encoding/json has no type for it
		return fmt.Errorf("%w: %s", err, newerVersion)
	}
	return err
}

// DecodeEvent reads the journal's form of an event. An event of a kind that this version does not know, and one of
// several kinds, is an error: what a decision rests on must not be left out.
func DecodeEvent(b []byte) (*Event, error) {
	ev := new(Event)
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(ev); err != nil {
		return nil, fmt.Errorf("shuffler event: %w", unknownField(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("shuffler event: something stands behind it")
	}
	if n := ev.kinds(); n != 1 {
		return nil, fmt.Errorf("shuffler event of %d kinds, must be one", n)
	}
	return ev, nil
}

// kinds is how many fields of the event are set.
func (ev *Event) kinds() (n int) {
	for _, set := range []bool{
		ev.Opened != nil, ev.Registered != nil, ev.Pooled != nil, ev.Drawn != nil, ev.Enrolled != nil, ev.Admitted != nil,
		ev.Excluded != nil, ev.Committed != nil, ev.Rejected != nil, ev.Finished != nil, ev.Adopted != nil,
		ev.Passed != nil, ev.Keys != nil, ev.Snapshot != nil,
	} {
		if set {
			n++
		}
	}
	return n
}

// Apply makes the event part of the state. It fails only on an event that no decision on this state can have made, as
// from a journal that was tampered with or belongs to another shuffler.
func (s *State) Apply(ev *Event) error {
	switch {
	case ev.Opened != nil:
		return s.applyOpened(ev.Opened)
	case ev.Snapshot != nil:
		return s.applySnapshot(ev.Snapshot)
	case ev.Keys != nil:
		s.keys = *ev.Keys
	case ev.Registered != nil:
		return s.applyRegistered(ev.Registered)
	case s.epoch == nil:
		return fmt.Errorf("shuffler event %s before any epoch was opened", ev.Encode())
	case ev.Enrolled != nil:
		id := DeviceID{Number: ev.Enrolled.Device}
		if copy(id.Host[:], ev.Enrolled.Host) != len(id.Host) {
			return fmt.Errorf("enrolment event: host key has %d bytes", len(ev.Enrolled.Host))
		}
		e := s.epoch
		if e.drawing != nil {
			return fmt.Errorf("enrolment event: the cohort of epoch %d is drawn", e.number)
		}
		if slot, ok := s.slotOf(id); ok {
			return fmt.Errorf("enrolment event: the device has slot %d of epoch %d already", slot, e.number)
		}
		at := time.UnixMilli(ev.Enrolled.ReportAt)
		s.tells(at.Add(-e.window() - e.jitter(uint32(e.slots.len()))))
		s.enter(id, at)
		s.wishes.grant(id, ev.Enrolled.Nonce)
		if at.After(e.last) {
			e.last = at
		}
	case ev.Pooled != nil:
		return s.applyPooled(ev.Pooled)
	case ev.Drawn != nil:
		return s.applyDrawn(ev.Drawn)
	case ev.Admitted != nil:
		r, err := s.round(ev.Admitted.Round)
		if err != nil {
			return err
		}
		var digest Digest
		if copy(digest[:], ev.Admitted.Digest) != len(digest) {
			return fmt.Errorf("admission event: digest has %d bytes", len(ev.Admitted.Digest))
		}
		slot := ev.Admitted.Slot
		_, out := r.excluded[slot]
		if out || int(slot) >= s.epoch.slots.len() || r.reports.get(slot) != nil || r.outcome != wire.Undecided {
			return fmt.Errorf("admission event: slot %d is nobody's, or cannot be admitted any more", slot)
		}
		r.reports.put(slot, ev.Admitted.Sequence, digest)
	case ev.Excluded != nil:
		r, err := s.round(ev.Excluded.Round)
		if err != nil {
			return err
		}
		if r.outcome != wire.Undecided {
			return fmt.Errorf("exclusion event: round %d is committed already", ev.Excluded.Round)
		}
		return r.exclude(ev.Excluded)
	case ev.Rejected != nil:
		r, err := s.round(ev.Rejected.Round)
		if err != nil {
			return err
		}
		if r.outcome != wire.Released || r.done {
			return fmt.Errorf("rejection event: round %d is not being released", ev.Rejected.Round)
		}
		return r.exclude(ev.Rejected)
	case ev.Committed != nil:
		r, err := s.round(ev.Committed.Round)
		if err != nil {
			return err
		}
		if r.outcome != wire.Undecided && ev.Committed.Outcome != wire.Destroyed {
			return fmt.Errorf("commit event: round %d is committed already", ev.Committed.Round)
		}
		if !decided(ev.Committed.Outcome) {
			return fmt.Errorf("commit event: round %d has no outcome %d", ev.Committed.Round, ev.Committed.Outcome)
		}
		if r.outcome == wire.Undecided {
			r.refused = ev.Committed.Refused
		}
		r.outcome, r.left = ev.Committed.Outcome, ev.Committed.Left
		s.epoch.destroyed = r.outcome == wire.Destroyed
	case ev.Finished != nil:
		r, err := s.round(ev.Finished.Round)
		if err != nil {
			return err
		}
		if r.outcome == wire.Undecided {
			return fmt.Errorf("finish event: round %d is not committed", ev.Finished.Round)
		}
		r.done = true
	case ev.Adopted != nil:
		r, err := s.round(ev.Adopted.Round)
		if err != nil {
			return err
		}
		if r.done {
			return fmt.Errorf("adoption event: round %d is over already", ev.Adopted.Round)
		}
		if !decided(ev.Adopted.Outcome) {
			return fmt.Errorf("adoption event: round %d has no outcome %d", ev.Adopted.Round, ev.Adopted.Outcome)
		}
		r.outcome, r.left, r.done, r.adopted = ev.Adopted.Outcome, ev.Adopted.Left, true, ev.Adopted
		if !ev.Adopted.Members {
			r.reports = reports{}
		}
		s.epoch.destroyed = r.outcome == wire.Destroyed
	case ev.Passed != nil:
		s.tells(time.UnixMilli(ev.Passed.At))
	default:
		return fmt.Errorf("shuffler event of unknown kind")
	}
	return nil
}

// decided tells whether it is how a round can end.
func decided(o wire.Outcome) bool { return o == wire.Released || o == wire.Destroyed }

func (s *State) applyOpened(o *Opened) error {
	r := &round{
		opened: time.UnixMilli(o.At), layout: o.Layout, excluded: map[uint32]wire.Refusal{},
	}
	if copy(r.digest[:], o.Digest) != len(r.digest) {
		return fmt.Errorf("opening event: digest has %d bytes", len(o.Digest))
	}
	if o.Panel != nil && o.Panel.Records < 1 {
		return fmt.Errorf("opening event: epoch %d has panels in which a device may never be", o.Epoch)
	}
	s.tells(r.opened)
	if e := s.epoch; e != nil && e.number == o.Epoch {
		if int(o.Round) != len(e.rounds) {
			return fmt.Errorf("opening event: round %d of epoch %d after %d rounds", o.Round, o.Epoch, len(e.rounds))
		}
		e.rounds = append(e.rounds, r)
		return nil
	}
	if e := s.epoch; e != nil && e.drawing == nil {
		for i := range e.slots.len() {
			s.devices.add(e.slots.at(i).device)
		}
		s.arrived += e.slots.len()
	}
	s.wishes.turn()
	s.epoch = &epoch{
		number: o.Epoch, size: o.Size, minimum: o.Minimum, timing: o.Timing.announced(), opened: r.opened, last: r.opened,
		planned: o.Rounds, room: s.capacity - s.arrived, slotOf: map[deviceKey]uint32{}, rounds: []*round{r}, final: o.Final,
	}
	if o.Final {
		return nil
	}
	s.begun, s.terms = true, o.Panel
	if o.Panel != nil {
		s.epoch.drawing = &drawing{commitment: o.Commitment}
	}
	return nil
}

// exclude takes reports out of the round.
func (r *round) exclude(ev *Excluded) error {
	if n := len(ev.Reasons); n != len(ev.Slots) {
		return fmt.Errorf("exclusion event: %d reasons for %d slots", n, len(ev.Slots))
	}
	for i, slot := range ev.Slots {
		if r.reports.get(slot) == nil {
			return fmt.Errorf("exclusion event: slot %d has no report", slot)
		}
		r.reports.remove(slot)
		r.excluded[slot] = ev.Reasons[i]
	}
	return nil
}

func (s *State) round(n uint32) (*round, error) {
	if s.epoch == nil || int(n) >= len(s.epoch.rounds) {
		return nil, fmt.Errorf("shuffler event about round %d, which is not open", n)
	}
	return s.epoch.rounds[n], nil
}
