package device

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Errors of rewards.
var (
	// ErrReward says that a reward is not a finite number, or differs from the one given before.
	ErrReward = errors.New("bad reward")
	// ErrLate says that the reward window is over, or that the report has been made.
	ErrLate = errors.New("the reward window is over, or the report was made")
)

// errSecret is the answer to every attempt to write a record.
var errSecret = errors.New("device: a record is not written anywhere")

// Record is the record of one promise: of each decision that the report is about, the arm that was played, its weight
// and its reward. In plans of panels there are up to Plan.Decisions of them, else one. A decision without a reward
// counts as none, so that the record is null until a reward is given, and again once it is wiped. Nothing of it can be
// printed or marshalled, not even how many decisions there are; only Device.Save writes it. One goroutine at a time.
//
// What it holds is behind a function: package fmt follows pointers, also those of unexported fields, and calls no
// function.
type Record struct{ open func() *held }

type held struct {
	enrolment Enrolment
	number    uint32
	least     float64 // reward
	largest   float64
	rounds    int
	reported  int
	most      int // decisions
	// Of the decisions so far, each of them null until its reward comes. Pointers, so that a slice that grows leaves
	// nothing behind.
	records []*statistic.Record
	known   bool // the arms of a decision
	deposit deposited
	over    bool
}

// Begin opens the record of a device's enrolment. It is null.
func (s State) Begin(a *Announced) Record {
	least, most := family.RewardRange(a.Policy.Family, a.Policy.MaxReward)
	h := &held{
		enrolment: *s.Enrolment, number: s.Number, least: least, largest: most, rounds: len(a.Plan.Rounds),
		reported: s.Enrolment.Reported, most: a.Plan.PerReport(),
	}
	return Record{func() *held { return h }}
}

// Remember keeps what was decided, if there is room for it; kept reports whether it did, and n counts the decisions
// that were kept before it: Reward names it so. A record that is full, one from which a report was made, one whose
// deposit was not placed, and one that is wiped keep nothing more. arm is the one that was played.
func (r Record) Remember(arm []float64, made glm.Decision) (n int, kept bool) {
	r.known()
	h := r.open()
	n = len(h.records)
	if h.over || h.reported > 0 || n == h.most {
		return 0, false
	}
	h.records = append(h.records, &statistic.Record{
		Arm: slices.Clone(arm), Weight: made.Weight, Explored: made.Explored, Control: made.Control, Null: true,
	})
	return n, true
}

// Full reports whether the record keeps no further decision.
func (r Record) Full() bool {
	h := r.open()
	return h.over || h.reported > 0 || len(h.records) == h.most
}

// Reward takes the reward of decision n. It must come before the report's time, and before the report. The same reward
// may be given again; another one is ErrReward.
func (r Record) Reward(n int, reward float64, now time.Time) (Acceptance, error) {
	h := r.open()
	accepted, err := Accept(reward, h.least, h.largest)
	switch {
	case err != nil:
		return Acceptance{}, err
	case h.over || h.reported > 0 || !now.Before(h.enrolment.ReportAt):
		return Acceptance{}, ErrLate
	case n < 0 || n >= len(h.records): // no arm was played: the record stays null
		return accepted, nil
	}
	d := h.records[n]
	if !d.Null && d.Reward != reward {
		return Acceptance{}, fmt.Errorf("%w: this token's reward was given before, with another value", ErrReward)
	}
	d.Reward, d.Null = reward, false
	return accepted, nil
}

// Reported counts the rounds whose report was made.
func (r Record) Reported() int { return r.open().reported }

// Wipe ends the record: what is left of it is overwritten.
func (r Record) Wipe() {
	r.Forget()
	r.open().over = true
}

// Forget makes the record null for good: what is left of it is overwritten, and it keeps nothing more. The reports that
// it is still for are made all the same.
func (r Record) Forget() {
	h := r.open()
	for _, d := range h.records {
		clear(d.Arm)
		*d = statistic.Record{Null: true}
	}
	h.records, h.most = nil, 0
}

// Over reports whether the record was wiped.
func (r Record) Over() bool { return r.open().over }

// Acceptance is the answer to a reward that came in time.
type Acceptance struct {
	Accepted bool `json:"accepted"`
	// Clipped says that the reward is outside what the policy's family of rewards allows, so that Used, the nearest
	// that it allows, goes into the record in its place.
	Clipped bool        `json:"clipped,omitempty"`
	Used    *float64    `json:"used,omitempty"`
	Range   *[2]float64 `json:"range,omitempty"` // smallest and largest reward
}

// Accept is the answer to a reward where rewards lie in [least, most]. One that is not finite is ErrReward.
func Accept(reward, least, most float64) (Acceptance, error) {
	if math.IsNaN(reward) || math.IsInf(reward, 0) {
		return Acceptance{}, fmt.Errorf("%w: not a finite number", ErrReward)
	}
	used := max(least, min(reward, most))
	if used == reward {
		return Acceptance{Accepted: true}, nil
	}
	return Acceptance{Accepted: true, Clipped: true, Used: &used, Range: &[2]float64{least, most}}, nil
}

// Report makes the report of the announced round, signs it and seals it to the shuffler's HPKE key: always of the same
// length, and with the same work, whatever the record. next is the state to make durable together with the envelope.
// The caller then calls Made, and sends the envelope. All rounding and noise come from src.
func (c *Core) Report(s State, r Record, a *Announced, shuffler []byte, src protocol.Source) (envelope []byte,
	next State, err error) {
	return c.report(s, r, a, shuffler, from(src))
}

func (c *Core) report(s State, r Record, a *Announced, shuffler []byte, of noise) (envelope []byte, next State,
	err error) {
	h := r.open()
	if h.deposit != noDeposit {
		return nil, s, fmt.Errorf("%w: it was made for a mailbox", ErrNoReport)
	}
	if envelope, err = c.envelope(h, h.records, a, shuffler, of); err != nil {
		return nil, s, err
	}
	if next, err = s.reported(a.Epoch); err != nil {
		return nil, s, fmt.Errorf("device: %w", err)
	}
	return envelope, next, nil
}

// envelope is the sealed report of the announced round about some decisions of a record.
func (c *Core) envelope(h *held, of []*statistic.Record, a *Announced, shuffler []byte, words noise) ([]byte, error) {
	if h.over || h.enrolment.Epoch != a.Epoch || h.reported != int(a.Round) || a.judged().round == nil {
		return nil, errors.New("device: this record has no report to make under this announcement")
	}
	by := channel.Sender{
		Identity: c.c.Identity, Credential: c.c.Credential, Number: h.number, Commitment: h.enrolment.Commitment,
	}
	payload, err := a.payload(of, by, words)
	if err != nil {
		return nil, err
	}
	report, err := wire.BuildReport(wire.Report{
		Announcement: a.Digest, Epoch: a.Epoch, Round: a.Round, Slot: h.enrolment.Slot, Device: h.number,
		Payload: payload,
	}, c.c.Identity)
	if err != nil {
		return nil, err
	}
	return wire.SealReport(report, shuffler,
		seal.ReportContext{Deployment: c.c.Deployment, Epoch: a.Epoch, Round: a.Round})
}

// Made notes that a report was made and is durable. After the last round the record is wiped.
func (r Record) Made() {
	h := r.open()
	if h.reported++; h.reported == h.rounds {
		r.Wipe()
	}
}

// payload is a record's contribution to the announced round. A record that a statistic refuses is reported as null, so
// that there are always the same messages.
func (a *Announced) payload(records []*statistic.Record, by channel.Sender, of noise) ([]byte, error) {
	vectors, err := a.contribution(records)
	if err != nil {
		if vectors, err = a.contribution(nil); err != nil {
			return nil, fmt.Errorf("device: the null record: %w", err)
		}
	}
	defer func() {
		for _, v := range vectors {
			clear(v)
		}
	}()
	return a.channel.Append(make([]byte, 0, a.channel.Size()), by, vectors, of(vectors))
}

func (a *Announced) contribution(records []*statistic.Record) ([][]float64, error) {
	if a.Plan.Panel != nil {
		return a.together(records)
	}
	one := statistic.Record{Null: true}
	if len(records) > 0 {
		one = *records[0]
	}
	return a.vectors(func(s statistic.Statistic) ([]float64, error) { return s.Vector(nil, one) })
}

// together adds up the vectors of up to Plan.Decisions records. The work is that of so many records whatever there are:
// what one of them lacks is done for an arm of zeros, and thrown away.
func (a *Announced) together(records []*statistic.Record) ([][]float64, error) {
	most := a.Plan.PerReport()
	if len(records) > most {
		return nil, fmt.Errorf("device: more decisions than a report holds, which is %d", most)
	}
	mine, others := make([]statistic.Record, most), make([]statistic.Record, most)
	defer clear(mine) // the arms are wiped with the record
	none := statistic.Record{Arm: make([]float64, a.Policy.Dimension)}
	for i := range mine {
		mine[i], others[i] = statistic.Record{Null: true}, none
		if i < len(records) && !records[i].Null {
			mine[i], others[i] = *records[i], statistic.Record{Null: true}
		}
	}
	return a.vectors(func(s statistic.Statistic) ([]float64, error) {
		if _, err := s.Report(nil, others, most); err != nil {
			return nil, err
		}
		return s.Report(nil, mine, most)
	})
}

// vectors are those of the round's statistics.
func (a *Announced) vectors(of func(statistic.Statistic) ([]float64, error)) ([][]float64, error) {
	statistics := a.judged().round.Statistics
	vectors := make([][]float64, len(statistics))
	for i, s := range statistics {
		var err error
		if vectors[i], err = of(s); err != nil {
			return nil, err
		}
	}
	return vectors, nil
}

// Format prints no more than what this is.
func (Record) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("a record, which is not shown")) }

// MarshalJSON refuses.
func (Record) MarshalJSON() ([]byte, error) { return nil, errSecret }

// MarshalText refuses.
func (Record) MarshalText() ([]byte, error) { return nil, errSecret }

// MarshalBinary refuses, and so does encoding/gob.
func (Record) MarshalBinary() ([]byte, error) { return nil, errSecret }
