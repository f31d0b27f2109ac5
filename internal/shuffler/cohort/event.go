package cohort

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
	channel.Layout        // its fields are here, in the journal too
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
	Issuer   []byte `json:"issuer,omitempty"` // key of who let it in; none: the registrar
	ReportAt int64  `json:"report_at_ms"`     // by the shuffler's clock
	Nonce    uint32 `json:"nonce"`            // of the device's request
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

// OpenedBy is the event of an announcement that is opened now.
func OpenedBy(a *plan.Announcement, d Digest, l channel.Layout, now time.Time) *Event {
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
		return nil, errors.New("shuffler event: trailing data")
	}
	if n := ev.kinds(); n != 1 {
		return nil, fmt.Errorf("shuffler event of %d kinds, must be one", n)
	}
	return ev, nil
}

// kinds is how many fields of the event are set.
func (ev *Event) kinds() (n int) {
	for _, set := range []bool{
		ev.Opened != nil, ev.Registered != nil, ev.Pooled != nil, ev.Drawn != nil, ev.Enrolled != nil,
		ev.Admitted != nil, ev.Excluded != nil, ev.Committed != nil, ev.Rejected != nil, ev.Finished != nil,
		ev.Adopted != nil, ev.Passed != nil, ev.Keys != nil, ev.Snapshot != nil,
	} {
		if set {
			n++
		}
	}
	return n
}
