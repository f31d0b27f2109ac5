package explain

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// ErrNone means that the logs hold nothing of what was asked for. The text lists what there is.
var ErrNone = errors.New("the logs hold nothing of it")

// Facts are the numbers behind an explanation.
type Facts struct {
	Deployment string       `json:"deployment"`
	Channel    plan.Channel `json:"channel"`
	RestsOn    string       `json:"rests_on"` // continues "The guarantee"
	// Promise is what the terms promise each person at Delta; what the plan claims where no terms are logged (Terms).
	Promise float64 `json:"promise"`
	Terms   bool    `json:"terms_logged"`
	Delta   float64 `json:"delta"`
	Plan    Planned `json:"plan"`
	Rounds  []Round `json:"rounds"` // those that were asked for; none of a plan
}

// Planned is what was announced before anybody took part.
type Planned struct {
	Epoch     uint64 `json:"epoch"`
	Rounds    int    `json:"rounds"`
	Size      uint32 `json:"size"`      // slots of the cohort
	Minimum   uint32 `json:"minimum"`   // reports below which nothing is released
	Dishonest uint32 `json:"dishonest"` // reports whose noise is not counted
	// Messages is how many messages each report of the first round has.
	Messages int             `json:"messages"`
	Releases []Vector        `json:"releases"` // of all rounds
	Curator  bool            `json:"curator"`  // a trusted analyzer reads records and adds the noise
	Epsilon  privacy.Epsilon `json:"epsilon"`  // of the whole plan at Minimum reports
	AtSize   privacy.Epsilon `json:"epsilon_at_size"`
	Alone    privacy.Epsilon `json:"epsilon_alone"`
	Who      []Observer      `json:"observers"`
	// Panel is of cohorts that are drawn from registered devices; nil of others.
	Panel *Panel `json:"panel,omitempty"`
}

// Panel is how a cohort is drawn, and what a person's whole part in the deployment reveals.
type Panel struct {
	Registered uint32  `json:"registered"` // fewest devices that it is drawn from
	Dishonest  float64 `json:"dishonest"`  // share of them that may be dishonest
	Tail       float64 `json:"tail"`       // part of delta for panels with more of them than are counted
	Decisions  uint32  `json:"decisions"`  // most of one report
	Records    uint32  `json:"records"`    // epochs that one device may report in
	Period     uint32  `json:"period"`     // out of so many that follow each other; 0: of the deployment
	Unit       string  `json:"unit_of_privacy"`
	// Lifetime is of all epochs that one device may report in, at the announced minimum; of a period where there is
	// one.
	Lifetime      privacy.Epsilon `json:"epsilon_lifetime"`
	LifetimeAlone privacy.Epsilon `json:"epsilon_lifetime_alone"`
}

// Vector is one planned vector sum.
type Vector struct {
	Round       int            `json:"round"`
	Statistic   statistic.Kind `json:"statistic"`
	Coordinates int            `json:"coordinates"` // 0: of a later round, whose encoding is announced with it
	Levels      uint32         `json:"levels"`      // of the coordinate that has the most; 0 as above
	NoiseBits   uint32         `json:"noise_bits"`  // of each device, per coordinate
	Bias        float64        `json:"bias"`        // probability that a noise bit is one
	Shuffler    uint64         `json:"shuffler_noise"`
	Analyzer    uint64         `json:"analyzer_noise"`
}

// Observer is one party, whom a person must trust for the bound on what it learns, and that bound.
type Observer struct {
	Sees    string          `json:"sees"`
	Honest  string          `json:"honest"`
	Epsilon privacy.Epsilon `json:"epsilon"`
	Alone   privacy.Epsilon `json:"epsilon_alone"`
}

// Round is what the statements say of a round. Fields of statements that are not there yet are zero.
type Round struct {
	Epoch uint64 `json:"epoch"`
	Round uint32 `json:"round"`
	// Outcome is that of audit.Row (released, destroyed, refused by the analyzer, uncounted by it), or open.
	Outcome string `json:"outcome"`
	// Left tells that something left the shuffler, or may have: then it is spent. Manifest tells that the shuffler's
	// statement is there, Recomputed that the audit confirmed what the analyzer learned.
	Left       bool        `json:"left"`
	Again      bool        `json:"left_again,omitempty"` // by a second manifest
	Manifest   bool        `json:"manifest"`
	Recomputed bool        `json:"recomputed"`
	Enrolled   uint32      `json:"enrolled"`
	Reports    uint32      `json:"reports"`
	Each       int         `json:"report_messages"` // messages of a report
	Messages   uint64      `json:"messages"`
	Noise      uint64      `json:"noise_messages"`
	Refused    []Refused   `json:"refused"`
	Counts     []int       `json:"counts"` // how many numbers each release gave
	Statements []Statement `json:"statements"`
	// Accepted are the reports that the analyzer signed that it accepts, and Shared those of the shuffler's share of
	// the sums, in the channel shares; nil and 0: nothing says it.
	Accepted *uint32 `json:"accepted,omitempty"`
	Shared   uint32  `json:"shared,omitempty"`
	// Epsilon is what the epoch's whole plan reveals with the reports that left, counted or not, Alone if no other
	// device is honest; 0 if nothing left.
	Epsilon privacy.Epsilon `json:"epsilon"`
	Alone   privacy.Epsilon `json:"epsilon_alone"`
	// Influence and Moved are how far dishonest devices can have moved what was released: see audit.Row.
	Influence []plan.StatedInfluence `json:"influence,omitempty"`
	Moved     float64                `json:"one_device_deviations,omitempty"`
	Version   string                 `json:"version,omitempty"` // of the analyzer's program
	// Registered is how many devices the panel was drawn from; 0: none was drawn.
	Registered uint32      `json:"registered,omitempty"`
	Lift       *audit.Lift `json:"lift,omitempty"` // what the analyzer says of the control group, in this epoch
	Total      *audit.Lift `json:"total,omitempty"`
	// how probable the sums are if the world is what it was; 0: not tested
	Unchanged float64 `json:"unchanged,omitempty"`
	Action    string  `json:"action,omitempty"` // by the rules
}

// Refused is how many reports were refused for a reason.
type Refused struct {
	Reason   string `json:"reason"`
	Means    string `json:"means"`
	Reports  uint64 `json:"reports"`   // at least
	TakenOut uint32 `json:"taken_out"` // of them, from a slot; exact
}

// Statement is where a signed statement is.
type Statement struct {
	Role  bus.Role `json:"role"`
	Index uint64   `json:"index"` // of the leaf in the role's log, from 0
	Kind  string   `json:"kind"`
}

// Name is the entry as breaches name it.
func (s Statement) Name() string { return fmt.Sprintf("%s/%d %s", s.Role, s.Index, s.Kind) }

// reader goes through both logs once and keeps what was asked for.
type reader struct {
	q             Question
	configuration *wire.Configuration
	first         *plan.Announcement            // of the epoch: its plan
	encodings     map[uint32]*plan.Announcement // of its rounds
	rounds        map[uint32]*Round
	counted       map[uint32]bool
	ended         map[uint32]audit.Row
	last          uint64 // epoch that was announced
}

// Of explains a release, an epoch or a plan of a deployment that was audited. Every statement counts under the
// signature of the keys that the options trust, and no other.
//
// Errors: ErrNone; the source's.
func Of(ctx context.Context, q Question, source audit.Source, o audit.Options) (*Answer, error) {
	r := &reader{q: q, encodings: map[uint32]*plan.Announcement{}, rounds: map[uint32]*Round{},
		counted: map[uint32]bool{},
		ended:   map[uint32]audit.Row{}}
	o.Row = r.row
	report, err := audit.Check(ctx, source, o)
	if err != nil {
		return nil, err
	}
	if q.Subject == Breach {
		return OfBreach(q.What, report), nil
	}
	for _, of := range []struct {
		role  bus.Role
		party wire.Party
	}{{bus.Analyzer, o.Trust.AnalyzerParty()}, {bus.Shuffler, o.Trust.ShufflerParty()}} {
		index := uint64(0)
		err := source.Log(ctx, of.role, func(e audit.Entry) error {
			r.read(Statement{of.role, index, e.Kind}, e.Signed, of.party)
			index++
			return nil
		})
		if err != nil && !errors.Is(err, audit.ErrFolder) { // the audit told of what cannot be read
			return nil, err
		}
	}
	f, err := r.facts(o.Trust.Deployment)
	if err != nil {
		return nil, err
	}
	a := &Answer{Question: q, Facts: f, Breaches: []audit.Breach{}}
	for _, b := range report.Breaches {
		if epoch, round, ok := strings.Cut(b.Release, "."); ok && epoch == fmt.Sprint(q.Epoch) &&
			(q.Subject != Release || round == fmt.Sprint(*r.q.Round)) {
			a.Breaches = append(a.Breaches, b)
		}
	}
	a.tell(report)
	return a, nil
}

// read takes an entry that the role signed under the kind that it has there; the audit tells of others.
func (r *reader) read(at Statement, signed []byte, from wire.Party) {
	switch prefix, _, _ := strings.Cut(at.Kind, "-"); {
	case at.Kind == wire.KindConfiguration && r.configuration == nil:
		if v, ok := open[wire.Configuration](signed, from); ok {
			r.configuration = v
		}
	case at.Kind == wire.KindAnnouncement:
		if v, ok := open[plan.Announcement](signed, from); ok {
			r.announce(at, v)
		}
	case at.Kind == wire.KindCounts:
		if v, ok := open[wire.Counts](signed, from); ok {
			if x := r.of(at, v.Epoch, v.Round); x != nil && !r.counted[v.Round] {
				r.counts(x, v)
			}
		}
	case at.Kind == wire.KindLearned:
		if v, ok := open[wire.Learned](signed, from); ok {
			if x := r.of(at, v.Epoch, v.Round); x != nil {
				x.Version, x.Unchanged, x.Action = v.Version, v.Unchanged, v.Action
				x.Lift, x.Total = audit.LiftOf(v.Lift), audit.LiftOf(v.Total)
			}
		}
	case at.Kind == wire.KindManifest:
		if v, ok := open[wire.Manifest](signed, from); ok {
			r.of(at, v.Epoch, v.Round)
		}
	case at.Kind == wire.KindPool:
		if v, ok := open[wire.Pool](signed, from); ok {
			if x := r.of(at, v.Epoch, 0); x != nil && x.Registered == 0 {
				x.Registered = v.Registered
			}
		}
	case at.Kind == wire.KindDraw:
		if v, ok := open[wire.Draw](signed, from); ok {
			r.of(at, v.Epoch, 0)
		}
	case prefix == accepted:
		if v, ok := open[wire.Accepted](signed, from); ok {
			if x := r.of(at, v.Epoch, v.Round); x != nil && x.Accepted == nil {
				x.Accepted = &v.Reports
			}
		}
	case prefix == summed:
		if v, ok := open[wire.Summed](signed, from); ok {
			if x := r.of(at, v.Epoch, v.Round); x != nil && x.Shared == 0 {
				x.Shared = v.Reports
			}
		}
	}
}

// How the kinds of the two sets of the channel shares begin; the round follows.
const (
	accepted = "accepted"
	summed   = "summed"
)

func open[T plan.Announcement | wire.Manifest | wire.Counts | wire.Accepted | wire.Summed | wire.Configuration |
	wire.Learned | wire.Pool | wire.Draw](signed []byte, from wire.Party) (*T, bool) {
	v, _, err := wire.Open[T](signed, from)
	return v, err == nil
}

// of is the round of the epoch in question, with the statement entered; nil for another one.
func (r *reader) of(at Statement, epoch uint64, round uint32) *Round {
	if epoch != r.q.Epoch || r.first == nil {
		return nil
	}
	x := r.rounds[round]
	if x == nil {
		x = &Round{Epoch: epoch, Round: round, Outcome: Open, Refused: []Refused{}, Counts: []int{}}
		r.rounds[round] = x
	}
	x.Statements = append(x.Statements, at)
	return x
}

// Open is the outcome of a round of which neither server signed how it ended.
const Open = "open"

func (r *reader) announce(at Statement, a *plan.Announcement) {
	if a.Final {
		return
	}
	r.last = max(r.last, a.Epoch)
	if a.Epoch != r.q.Epoch {
		return
	}
	if r.first == nil {
		r.first = a
	}
	if r.encodings[a.Round] == nil {
		r.encodings[a.Round] = a
	}
	r.of(at, a.Epoch, a.Round).Each = a.ReportMessages()
}

// row enters what the audit found of a round: it holds both logs against each other.
func (r *reader) row(row audit.Row) {
	if row.Epoch != r.q.Epoch {
		return
	}
	r.ended[row.Round] = row
}

// end enters the audit's rows into the rounds.
func (r *reader) end(delta float64) {
	for n, row := range r.ended {
		x, a := r.rounds[n], r.encodings[n]
		if x == nil || a == nil {
			continue
		}
		x.Outcome, x.Enrolled, x.Reports, x.Messages, x.Noise = row.Outcome, row.Enrolled, row.Reports, row.Messages,
			row.Noise
		x.Left, x.Again, x.Manifest, x.Recomputed = row.Left, row.Again, row.Manifest, row.Recomputed
		x.Epsilon = row.Epsilon
		x.Influence, x.Moved = row.Influence, row.Moved
		if x.Left {
			x.Alone = epsilonOf(delta, func() (guarantee, error) { return plan.Alone(a) })
		}
		for _, one := range row.Refused {
			x.Refused = append(x.Refused, Refused{one.Reason, means(one.Reason), one.Reports, one.TakenOut})
		}
	}
}

// means says why reports were refused for a reason.
func means(reason string) string {
	for _, r := range wire.Refusals() {
		if r.String() == reason {
			return r.Means()
		}
	}
	return wire.NoRefusal.Means()
}

// counts enters what was counted.
func (r *reader) counts(x *Round, v *wire.Counts) {
	r.counted[v.Round] = true
	for _, one := range v.Releases {
		x.Counts = append(x.Counts, len(one.Ones)+len(one.Curated)+len(one.Entries))
	}
}
