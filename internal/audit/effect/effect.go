// Package effect says whether a deployment's policy helps: what the control group shows, epoch by epoch and over all of
// them, beside what it cost people's privacy. It is for those who answer for a product. Every number is from an audit.
package effect

import (
	"encoding/json"
	"fmt"
	"io"
	"math"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Level is below which probability of an epoch's sums this package says that the world changed, where the learner has
// no level of its own.
const Level = 0.01

// Result is whether the policy helps. Its JSON form is a stable interface: keys are added, never renamed or removed.
type Result struct {
	OK         bool         `json:"ok"`       // the audit found no breach
	Breaches   int          `json:"breaches"` // that it found
	Deployment string       `json:"deployment"`
	Channel    plan.Channel `json:"channel,omitempty"`
	Running    bool         `json:"running"`
	Verdict    string       `json:"verdict"` // one sentence
	// WrongShare says why no lift may be relied on; empty: nothing is known against it.
	WrongShare string `json:"wrong_share,omitempty"`
	// Cumulated is over all epochs so far; nil: there is no control group, or nothing was released yet.
	Cumulated *audit.Lift `json:"cumulated"`
	// Epsilon is what a person's whole part in the deployment can reveal, or in one period of Period epochs; SoFar what
	// the epochs until now can have. Both are of a person who was in as many as can be, at Delta.
	Epsilon privacy.Epsilon `json:"epsilon"`
	SoFar   privacy.Epsilon `json:"epsilon_so_far"`
	Promise float64         `json:"promise"`
	Delta   float64         `json:"delta"`
	Panel   *audit.Panel    `json:"panel,omitempty"`
	Level   float64         `json:"level"` // of Changed
	Epochs  []Epoch         `json:"epochs"`
	Notes   []string        `json:"notes"`
	// Refused and Enough are as in audit.Report.
	Refused int `json:"refused"`
	Enough  int `json:"destroyed_with_enough_reports"`
}

// Epoch is one cohort. The lift and what goes with it are of this epoch alone.
type Epoch struct {
	Epoch      uint64          `json:"epoch"`
	Outcome    string          `json:"outcome"`              // as in audit.Row
	Registered uint32          `json:"registered,omitempty"` // devices that the panel was drawn from
	Size       uint32          `json:"size"`                 // of the cohort
	Reports    uint32          `json:"reports"`
	Epsilon    privacy.Epsilon `json:"epsilon"`        // of this epoch
	SoFar      privacy.Epsilon `json:"epsilon_so_far"` // of all epochs up to it
	Lift       *Lift           `json:"effect"`         // nil: none is known
	Cumulated  *Lift           `json:"cumulated"`
	// Unchanged is how probable such sums are if the world is what it was; null: it was not tested. Changed: below
	// Level.
	Unchanged *float64 `json:"unchanged"`
	Changed   bool     `json:"changed"`
	Action    string   `json:"action"` // by the rules: rollback, stop or nothing
}

// Lift is audit.Lift.
type Lift = audit.Lift

// Of is the result of an audit, whose Rounds were asked for.
func Of(r *audit.Report) *Result {
	out := &Result{
		OK: r.OK, Breaches: len(r.Breaches) + r.Unlisted, Deployment: r.Deployment, Channel: r.Channel,
		Running:   r.Running,
		Cumulated: r.Lift, Epsilon: r.Epsilon, SoFar: r.EpsilonSoFar, Promise: r.Promise, Delta: r.Delta,
		Panel: r.Panel,
		Level: r.Alarm, WrongShare: r.WrongShare, Epochs: []Epoch{}, Notes: []string{}, Refused: r.Refused,
		Enough: r.Enough,
	}
	if out.Level == 0 {
		out.Level = Level
	}
	tested, last := false, privacy.Epsilon(0)
	for _, row := range r.Rounds {
		last = max(last, row.SoFar, row.Epsilon) // counted or not; 0 where nothing left
		e := Epoch{
			Epoch: row.Epoch, Outcome: row.Outcome, Registered: row.Registered, Size: row.Size, Reports: row.Reports,
			Epsilon: row.Epsilon, SoFar: last, Lift: row.Lift, Cumulated: row.Total, Action: row.Action,
		}
		if row.Unchanged > 0 {
			tested, e.Unchanged, e.Changed = true, &row.Unchanged, row.Unchanged < out.Level
		}
		if n := len(out.Epochs); n > 0 && out.Epochs[n-1].Epoch == e.Epoch {
			out.Epochs[n-1] = e // the last round of an epoch says what came of it
		} else {
			out.Epochs = append(out.Epochs, e)
		}
	}
	out.Verdict = out.verdict()
	out.note(tested)
	return out
}

// verdict is the answer in one sentence.
func (r *Result) verdict() string {
	l := r.Cumulated
	if l == nil {
		for _, e := range r.Epochs {
			if e.Outcome == wire.Released.String() {
				return "Nothing says whether the policy helps: this deployment has no control group. A new one " +
					"has, with the analyzer's setting learner.control."
			}
		}
		return "Nothing was released yet."
	}
	if r.WrongShare != "" {
		return "It cannot be told whether the policy helps. " + r.WrongShare
	}
	if !l.Known() {
		return "Nothing is known yet of whether the policy helps: too few rewards came for so much noise."
	}
	interval := fmt.Sprintf("95 %% interval %s to %s, over %d reports", WithSign(l.Low), WithSign(l.High), l.Reports)
	switch {
	case l.Low > 0:
		return fmt.Sprintf("The policy is better than the default arm, by %s of reward in a decision (%s).",
			WithSign(l.Lift),
			interval)
	case l.High < 0:
		return fmt.Sprintf("The policy is WORSE than the default arm, by %s of reward in a decision (%s).",
			WithSign(l.Lift),
			interval)
	}
	return fmt.Sprintf("It is not known yet whether the policy is better than the default arm: %s of reward in a "+
		"decision (%s).", WithSign(l.Lift), interval)
}

// Tone is good where the policy is better, bad where it is worse or the audit found something, and empty where nothing
// is known yet.
func (r *Result) Tone() string {
	switch l := r.Cumulated; {
	case !r.OK, r.WrongShare != "", l != nil && l.High < 0:
		return "bad"
	case l != nil && l.Low > 0:
		return "good"
	}
	return ""
}

// note says what the numbers mean and what they do not.
func (r *Result) note(tested bool) {
	add := func(format string, v ...any) { r.Notes = append(r.Notes, fmt.Sprintf(format, v...)) }
	if !r.OK {
		add("THE AUDIT FOUND %d BREACHES: rely on nothing here until they are explained (riffle audit).", r.Breaches)
	}
	if r.Cumulated != nil {
		add("The control group is drawn by a coin in each decision and gets the default arm. Intervals are for " +
			"sampling and for the noise that protects people. A mean that noise puts outside the range of rewards is " +
			"shown as the nearest end of it, and the lift is the difference of the two means that are shown. Over " +
			"all epochs they compare all policies so far together with the default arm; the newest policy can be " +
			"better than that. A 95 %% interval is for one look: who looks after every epoch and stops when it suits " +
			"them is wrong more often than once in 20 times.")
	}
	if r.Refused > 0 {
		add("The analyzer refused %d cohorts after they had left the shuffler: what they spent is in epsilon, and who "+
			"refuses what they saw can choose what counts.", r.Refused)
	}
	if r.Enough > 0 {
		add("The shuffler destroyed %d cohorts that had reports enough: who destroys what they do not like chooses "+
			"whose reports count.", r.Enough)
	}
	if tested {
		add("The world is said to have changed where sums like an epoch's have a probability below %g if it is what "+
			"it was; by chance that happens in %g of 1000 epochs.", r.Level, 1000*r.Level)
	}
	switch q := r.Panel; {
	case q == nil:
		add("Epsilon is of a person who reports once. A device reports in one epoch, unless its owner lets it in " +
			"more: then it adds up.")
	case q.Period > 0:
		add("Epsilon is for %s; over the deployment is the budget of one period of %d epochs, which a person who "+
			"stays spends again: nothing bounds all periods together.", r.unit(), q.Period)
	default:
		add("Epsilon is for %s.", r.unit())
	}
}

// unit is what is protected.
func (r *Result) unit() string {
	return r.Panel.Unit()
}

// WithSign is a number with its sign, rounded for people.
func WithSign(v float64) string { return fmt.Sprintf("%+.3g", v) }

// WriteJSON writes the result as one indented JSON object.
func (r *Result) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

func finite(v float64) bool { return !math.IsInf(v, 0) && !math.IsNaN(v) }
