package audit

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/riffle-dp/riffle/internal/audit/certificate"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Breach is one thing that is wrong, with the entry that proves it.
type Breach struct {
	What What `json:"what"`
	// Entry is where the proof is: "<role>/<index of the leaf> <kind>", "<role>.checkpoint", or the name of a file.
	Entry   string `json:"entry"`
	Release string `json:"release,omitempty"` // "<epoch>.<round>"
	Detail  string `json:"detail"`            // one sentence for people: what was expected, what was found
}

// MaxBreaches bounds the breaches that a report lists: a log that is wrong from one entry on is wrong in all of them.
const MaxBreaches = 100

// Report is the result of an audit.
type Report struct {
	OK         bool         `json:"ok"` // no breach was found
	Deployment string       `json:"deployment"`
	Channel    plan.Channel `json:"channel,omitempty"`
	Releases   int          `json:"releases"`  // rounds that were released and counted
	Destroyed  int          `json:"destroyed"` // rounds of which nothing counts
	// Refused are those of Destroyed that the shuffler released and the analyzer refused: what left is spent all the
	// same. Enough are those that the shuffler destroyed although it had the announced minimum of reports.
	Refused int `json:"refused"`
	Enough  int `json:"destroyed_with_enough_reports"`
	// Epsilon is the largest that an announced plan reveals about a record, recomputed, at Delta: over all releases
	// that use the record. EpsilonAlone is the same if no other device is honest. +Inf, null in JSON: nothing bounds
	// it.
	Epsilon      privacy.Epsilon `json:"epsilon"`
	EpsilonAlone privacy.Epsilon `json:"epsilon_alone"`
	Delta        float64         `json:"delta"`
	// Panel is of deployments that draw their cohorts from registered devices; nil in others. Epsilon is then of the
	// whole deployment, or of a period, and EpsilonSoFar of what left the shuffler until now, counted or not, about who
	// was in as many panels as can be; otherwise it is the largest of a round.
	Panel        *Panel          `json:"panel,omitempty"`
	EpsilonSoFar privacy.Epsilon `json:"epsilon_so_far,omitempty"`
	// Lift is what the control group says over all epochs so far, as the analyzer signed it; nil without one.
	Lift *Lift `json:"lift,omitempty"`
	// WrongShare says why no lift may be relied on: the control group's size cannot be chance. Recomputed.
	WrongShare string `json:"wrong_share,omitempty"`
	// Alarm is the significance at which the learner takes the world for changed; 0: it does not look.
	Alarm float64 `json:"alarm,omitempty"`
	// Opened counts the releases whose retained messages were opened, all of them, and are those of the manifest, and
	// Recounted those of them that were counted again.
	Opened    int `json:"opened"`
	Recounted int `json:"recounted"`
	// Issuers are those whose logs were read, one for each log. TookPart compares them with the servers' logs; nil
	// without any.
	Issuers  []Issuer  `json:"issuers,omitempty"`
	TookPart *TookPart `json:"took_part,omitempty"`
	// Promise is the epsilon that the configured terms promise to each person, at Delta; 0 if there is no
	// configuration.
	Promise float64 `json:"promise"`
	// PoliciesRecomputed counts the rounds whose sums, iterate and policy are those that this audit computed.
	PoliciesRecomputed int `json:"policies_recomputed"`
	// Running tells that the last announcement is not out: the deployment goes on.
	Running   bool        `json:"running"`
	Entries   Entries     `json:"entries"`
	Witnessed []Witnessed `json:"witnessed"`
	Breaches  []Breach    `json:"breaches"`           // in the order in which they were found, at most MaxBreaches
	Unlisted  int         `json:"unlisted,omitempty"` // breaches beyond those
	Notes     []string    `json:"notes"`              // what could not be checked and why, and what a reader must know
	Rounds    []Row       `json:"rounds,omitempty"`   // only where they were asked for (Options.Row)
	// Terms are what the coefficients of rounds stand for, by the configured schema; none without one.
	Terms []string `json:"terms,omitempty"`
}

// Panel is how a deployment draws its cohorts, and whom it protects: everything that a person does in an epoch.
type Panel struct {
	Registered uint32  `json:"registered"` // fewest devices that a panel is drawn from
	Dishonest  float64 `json:"dishonest"`  // share of them that may be dishonest
	Tail       float64 `json:"tail"`       // part of delta of each epoch for panels with more of them than are counted
	Decisions  uint32  `json:"decisions"`  // most of one report
	Records    uint32  `json:"records"`    // epochs that one device may report in
	Period     uint32  `json:"period"`     // out of so many that follow each other; 0: of the deployment
	Drawn      int     `json:"drawn"`      // panels whose seed is known
	Undone     int     `json:"undone"`     // of them, those of which nothing was released
}

// Lift compares the policy with the control group, which gets the default arm.
type Lift struct {
	Reports   uint64  `json:"reports"`
	Decisions float64 `json:"decisions_per_report"` // that a reward came for, estimated
	Treated   float64 `json:"reward_policy"`        // mean, estimated
	Control   float64 `json:"reward_control"`       // mean, estimated
	Lift      float64 `json:"lift"`                 // the difference of the two
	Low       float64 `json:"lift_low"`             // its 95 % interval, for sampling and all noise
	High      float64 `json:"lift_high"`
}

// Unit says what is protected.
func (p Panel) Unit() string {
	return certificate.Unit(plan.Plan{Panel: new(plan.Panel), Decisions: p.Decisions, Records: p.Records,
		Period: p.Period})
}

// Protected says what the report's epsilon protects.
func (r *Report) Protected() string {
	if r.Panel != nil {
		return r.Panel.Unit()
	}
	return certificate.Unit(plan.Plan{})
}

// panelOf is how a plan draws its cohort; nil of a plan that draws none.
func panelOf(p plan.Plan) *Panel {
	q := p.Panel
	if q == nil {
		return nil
	}
	return &Panel{Registered: q.Registered, Dishonest: q.Dishonest, Tail: q.Tail, Decisions: p.Decisions,
		Records: p.Records,
		Period:  p.Period}
}

// Known reports whether the reports say anything at all of the lift. If it cannot be ruled out that no reward came,
// every lift is possible, and the numbers are the middle of their ranges (learner.NewLift).
func (l Lift) Known() bool { return !(l.Lift == 0 && l.Treated == l.Control && l.Low == -l.High) }

// Shown writes the two mean rewards and the lift for people, with as many decimals as give the larger mean four digits:
// the lift is the difference of the means as they are written.
func (l Lift) Shown() (treated, control, lift string) {
	const digits, most = 4, 15
	places := digits
	if larger := max(math.Abs(l.Treated), math.Abs(l.Control)); larger > 0 {
		places = min(max(0, digits-1-int(math.Floor(math.Log10(larger)))), most)
	}
	unit := math.Pow(10, float64(places))
	t, c := math.Round(l.Treated*unit)+0, math.Round(l.Control*unit)+0 // -0 is 0
	write := func(v float64) string { return strconv.FormatFloat(v/unit, 'f', places, 64) }
	lift = write(t - c)
	if t >= c {
		lift = "+" + lift
	}
	return write(t), write(c), lift
}

// LiftOf is a signed lift; nil of none.
func LiftOf(l *wire.Lift) *Lift {
	if l == nil {
		return nil
	}
	x := Lift(*l)
	return &x
}

// Entries are how many entries of each log were read.
type Entries struct {
	Analyzer uint64 `json:"analyzer"`
	Shuffler uint64 `json:"shuffler"`
}

// Witnessed is a checkpoint of a log that a witness co-signed.
type Witnessed struct {
	Witness string    `json:"witness"`
	Role    bus.Role  `json:"role"`
	Size    uint64    `json:"size"` // entries
	At      time.Time `json:"at"`
}

// Row is what a round did.
type Row struct {
	Epoch    uint64 `json:"epoch"`
	Round    uint32 `json:"round"`
	Outcome  string `json:"outcome"` // released, destroyed, refused by the analyzer, or uncounted by it
	Size     uint32 `json:"size"`    // slots of the cohort
	Minimum  uint32 `json:"minimum"`
	Enrolled uint32 `json:"enrolled"`
	Reports  uint32 `json:"reports"`
	// Messages left, of them Noise of the shuffler; of a destroyed cohort the most that can have left.
	Messages  uint64    `json:"messages"`
	Noise     uint64    `json:"noise_messages"`
	Refused   []Refused `json:"refused"`
	Announced string    `json:"announced"` // the entry of the announcement
	// Left tells that something left the shuffler, or may have: then it is spent, whatever the outcome.
	Left bool `json:"left"`
	// Again tells that something left by a second manifest of the round, or may have. Then nothing bounds Epsilon.
	Again bool `json:"left_again,omitempty"`
	// Manifest tells that the shuffler's statement of the round is there, Recomputed that what the analyzer signed that
	// it learned is what follows from the counts.
	Manifest   bool `json:"manifest"`
	Recomputed bool `json:"recomputed"`
	// Epsilon is that of what left, with the reports that came, 0 if nothing did; Promised that of the announced
	// minimum. Both are over all releases that use a record; Alone is Promised if no other device is honest.
	Epsilon  privacy.Epsilon `json:"epsilon"`
	Promised privacy.Epsilon `json:"promised"`
	Alone    privacy.Epsilon `json:"epsilon_alone"`
	// Coefficients are the estimate after the round, HalfWidth half the length of the interval of each; none where
	// there is no interval. Interval says what it is.
	Coefficients []float64 `json:"coefficients,omitempty"`
	HalfWidth    []float64 `json:"half_width,omitempty"`
	Interval     string    `json:"interval,omitempty"`
	// Registered is how many devices the panel was drawn from; 0 where none is drawn, or nothing says it.
	Registered uint32 `json:"registered,omitempty"`
	// SoFar is what a person's reports of all epochs up to this one reveal, where a person can be in several.
	SoFar privacy.Epsilon `json:"epsilon_so_far,omitempty"`
	// Lift is of this epoch, Total of all so far; nil without a control group.
	Lift  *Lift `json:"lift,omitempty"`
	Total *Lift `json:"total,omitempty"`
	// Unchanged is how probable such sums are if the world is what it was; 0: it was not tested.
	Unchanged float64 `json:"unchanged,omitempty"`
	// Influence is how far dishonest devices can have moved each number that was released, as the plan says, and Moved
	// the most of one device in standard deviations of a number's error; none where nothing was released, or records
	// were read.
	Influence []plan.StatedInfluence `json:"influence,omitempty"`
	Moved     float64                `json:"one_device_deviations,omitempty"`
	Action    string                 `json:"action,omitempty"` // by the rules: rollback, stop or nothing
	// Asked is the name of the question that the panel was asked, empty where it was to teach the learner; Answer is
	// what it answered, of an epoch that was released; recomputed.
	Asked  string             `json:"asked,omitempty"`
	Answer *deployment.Answer `json:"answer,omitempty"`
}

// Refused is how many reports of a round were refused for a reason.
type Refused struct {
	Reason   string `json:"reason"`
	Reports  uint64 `json:"reports"`   // at least
	TakenOut uint32 `json:"taken_out"` // of them, from a slot; exact
}

// place is "<epoch>.<round>".
func place(epoch uint64, round uint32) string { return fmt.Sprintf("%d.%d", epoch, round) }

func (r *Report) breach(b Breach) {
	r.OK = false
	if len(r.Breaches) == MaxBreaches {
		r.Unlisted++
		return
	}
	r.Breaches = append(r.Breaches, b)
}

// addWitness keeps the longest log that a witness saw of a role.
func (r *Report) addWitness(w Witnessed) {
	for i, known := range r.Witnessed {
		if known.Witness == w.Witness && known.Role == w.Role {
			if w.Size > known.Size {
				r.Witnessed[i] = w
			}
			return
		}
	}
	r.Witnessed = append(r.Witnessed, w)
}

// note adds a sentence once.
func (r *Report) note(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	for _, known := range r.Notes {
		if known == text {
			return
		}
	}
	r.Notes = append(r.Notes, text)
}
