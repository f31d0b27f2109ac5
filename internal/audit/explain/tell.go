package explain

import (
	"fmt"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// tell puts the facts into words.
func (a *Answer) tell(report *audit.Report) {
	f := a.Facts
	for _, x := range f.Rounds {
		a.Text = append(a.Text, f.tellEnd(x))
		if len(x.Counts) > 0 {
			a.Text = append(a.Text, f.gave(x))
		}
		if x.Lift != nil || x.Unchanged > 0 {
			a.Text = append(a.Text, x.compares())
		}
		if x.Manifest {
			a.Text = append(a.Text, x.turnedAway())
		}
	}
	if a.Question.Subject == Plan {
		a.Text = append(a.Text, f.Plan.holds(f.Channel))
	} else {
		a.Text = append(a.Text, f.cost())
	}
	a.Text = append(a.Text, f.protects(), f.learns())
	if a.Question.Subject != Plan {
		a.Text = append(a.Text, f.sees())
	}
	for _, x := range f.Rounds {
		a.Text = append(a.Text, x.statements())
	}
	a.Text = append(a.Text, tellBreaches(a.Breaches, report, "about it"))
}

// gave says what was released of a round, and what the public has of it.
func (f *Facts) gave(x Round) Section {
	s, moved := Section{Title: "What was released"}, "a number"
	if f.Plan.Curator {
		s.add("%s, made of all records so far, to which the plan has the analyzer add noise.",
			many(x.Counts[0], "number"))
	} else {
		for i, n := range x.Counts {
			v := f.planned(int(x.Round), i)
			if v.Statistic == statistic.Pair && v.Coordinates > 0 {
				moved = "the sum of a number over these reports"
				s.add("The numbers of %s one by one, each with the noise of its own device: %s.",
					many(n/v.Coordinates, "report"), v.words())
				continue
			}
			s.add("%s, with the noise of the plan, over the %s together: %s.", many(n, "count"),
				many(x.Reports, "report"), v.words())
		}
	}
	if x.Moved > 0 {
		further := ""
		if n := x.Influence[0].Devices; n > 1 {
			further = fmt.Sprintf(", and all %d that the plan expects at most by %.2f together", n, x.together())
		}
		s.add("While both servers follow the protocol, one dishonest device can have moved %s by at most %.2f "+
			"standard deviations of its error%s.", moved, x.Moved, further)
	}
	if x.Recomputed {
		s.add("These counts are signed and public. The audit computed what follows from them, and it is what the " +
			"analyzer signed that it learned.")
	} else {
		s.add("These counts are signed and public. The audit did not confirm what the analyzer says that it learned " +
			"from them.")
	}
	if x.Version != "" {
		s.add("The analyzer's program calls itself %q.", x.Version)
	}
	return s
}

// together is the most by which all dishonest devices that the plan expects can have moved a number, in standard
// deviations of its error.
func (x Round) together() (most float64) {
	for _, of := range x.Influence {
		if of.Deviation > 0 {
			most = max(most, slices.Max(of.All)/of.Deviation)
		}
	}
	return most
}

// statistics are what devices compute, in words.
var statistics = map[statistic.Kind]string{
	statistic.Hessian:    "squares and products of the arms' entries, weighted by the slope of the model (hessian)",
	statistic.Gradient:   "by how much predicted and actual rewards differ, along the arms (gradient)",
	statistic.Covariance: "squares and products of the arms' entries (covariance)",
	statistic.Row:        "the record itself, for the trusted analyzer (row)",
	statistic.Pair:       "the arm and the reward (pair)",
	statistic.Rewards:    "rewards of the policy, rewards of the control group, and how many came (rewards)",
	statistic.Normalization: "squares and products of the arms' entries, reweighted by the announced matrix " +
		"(normalization)",
	statistic.ReweightedGradient: "by how much predicted and actual rewards differ, along the reweighted arms " +
		"(reweighted gradient)",
	statistic.ReweightedLinear: "reward, arm and reweighted arm, each times the reweighted arm (reweighted linear)",
	statistic.ClippedGradient: "by how much clipped predictions and actual rewards differ, along the arms " +
		"(clipped gradient)",
	statistic.BinCount: "which bin of the announced tree the record is in (bin-count)",
	statistic.BinFirst: "by how much the reward differs from what the tree predicts, along what is left of the arm " +
		"(bin-first)",
	statistic.BinSecond: "squares and products of what is left of the arm's entries (bin-second)",
	statistic.BinErrors: "how far off the tree can be, along the direction of the record's bin (bin-errors)",
	statistic.Mean:      "the announced quantities, their squares, and how many decisions there are (mean)",
	statistic.Histogram: "the announced cell that the decision is in, and how many decisions there are (histogram)",
	statistic.Fit:       "products of the announced quantities with each other (fit)",
}

// planned is what the plan says of a release; the zero value if it does not name it.
func (f *Facts) planned(round, release int) Vector {
	for _, v := range f.Plan.Releases {
		if v.Round != round {
			continue
		}
		if release == 0 {
			return v
		}
		release--
	}
	return Vector{Statistic: "of a release that was not planned"}
}

func (v Vector) words() string {
	if words, ok := statistics[v.Statistic]; ok {
		return words
	}
	return string(v.Statistic)
}

// sees says what reached whom.
func (f *Facts) sees() Section {
	s := Section{Title: "Who sees what in this channel (an honest party forgets it and learns what is published)"}
	for _, v := range Views(f.Channel) {
		if v.Curious == v.Malicious {
			s.add("%s: %s. Curious or malicious, it learns about one person: %s.", v.Who, v.Sees, v.Curious)
			continue
		}
		s.add("%s: %s. If curious, it learns about one person: %s. If malicious: %s.", v.Who, v.Sees, v.Curious,
			v.Malicious)
	}
	if c := Condition(f.Channel); c != "" {
		s.add("%s", c)
	}
	return s
}

// learns gives the bounds of the plan for each observer.
func (f *Facts) learns() Section {
	s := Section{Title: fmt.Sprintf("Who can learn how much, at delta %g and the minimum of %s", f.Delta,
		many(f.Plan.Minimum, "report"))}
	for _, o := range f.Plan.Who {
		s.add("%s: %s. Who must be honest: %s. If no other device is honest: %s.", o.Sees, bound(o.Epsilon), o.Honest,
			bound(o.Alone))
	}
	if len(f.Plan.Who) == 0 {
		s.add("The plan bounds nothing.")
	}
	return s
}

// holds says what was planned.
func (p Planned) holds(c plan.Channel) Section {
	s := Section{Title: fmt.Sprintf("The plan of epoch %d (channel %s)", p.Epoch, c)}
	what := "one record"
	if p.Panel != nil {
		what = "all that one person did in the epoch"
		p.Panel.tellDraw(&s, p.Size)
	}
	s.add("The cohort has %s. Nothing may be released of fewer than %s.", many(p.Size, "place"),
		many(p.Minimum, "report"))
	s.add("Each device reports in %s. A report of the first one has %s.", many(p.Rounds, "round"),
		many(p.Messages, "message"))
	for i, v := range p.Releases {
		if i > 0 && i+1 < len(p.Releases) && i > listedReleases {
			continue
		}
		s.add("Round %d: %s%s%s.", v.Round, v.words(), v.shape(), v.noise())
	}
	if more := len(p.Releases) - listedReleases - 2; more > 0 {
		s.add("%s between these are in the JSON.", many(more, "release"))
	}
	s.add("With the fewest reports it reveals %s of %s, over all its releases. If no other device is honest: %s.",
		bound(p.Epsilon), what, bound(p.Alone))
	switch low, high := float64(p.Epsilon), float64(p.AtSize); {
	case low == high:
		s.add("These numbers do not depend on how many report: none of the noise that they count is of other devices.")
	default:
		s.add("With fewer reports there is less noise, and the first number grows, up to this one at the minimum; if "+
			"all %s report it is %s. The second number does not depend on how many report.", many(p.Size, "device"),
			bound(p.AtSize))
	}
	return s
}

// listedReleases bounds the releases of a plan that are told in words, besides the first and the last.
const listedReleases = 8

// shape is the numbers of a planned sum.
func (v Vector) shape() string {
	if v.Coordinates == 0 {
		return ", encoded as is announced with the round"
	}
	return fmt.Sprintf(", %s of up to %s each", many(v.Coordinates, "number"), many(v.Levels, "level"))
}

// noise is the noise of a planned sum.
func (v Vector) noise() string {
	text := ""
	if v.NoiseBits > 0 {
		text = fmt.Sprintf(", with %s of each device per number", many(v.NoiseBits, "noise bit"))
	}
	if v.Shuffler > 0 {
		text += fmt.Sprintf(", with %s of the shuffler", many(v.Shuffler, "noise bit"))
	}
	if v.Analyzer > 0 {
		text += fmt.Sprintf(", with %s of the analyzer", many(v.Analyzer, "noise bit"))
	}
	if text != "" {
		text += fmt.Sprintf(", which are one with probability %v", v.Bias)
	}
	return text
}

// statements lists the statements of a round.
func (x Round) statements() Section {
	s := Section{Title: fmt.Sprintf("Where release %d.%d is in the logs", x.Epoch, x.Round)}
	for _, one := range x.Statements {
		s.add("%s: %s", one.Name(), one.says())
	}
	return s
}

// says what a statement is.
func (s Statement) says() string {
	switch s.Kind {
	case wire.KindAnnouncement:
		return "policy, plan and reference of the round"
	case wire.KindCounts:
		return "what the analyzer counted"
	case wire.KindLearned:
		return "what it says that it concluded"
	case wire.KindManifest:
		return "how the round ended, by the shuffler's word"
	case wire.KindPool:
		return "from how many devices the panel is drawn, and the shuffler's part of the draw"
	case wire.KindDraw:
		return "the analyzer's part of the draw"
	}
	if len(s.Kind) > len(accepted) && s.Kind[:len(accepted)] == accepted {
		return "the reports that the analyzer accepts"
	}
	return "the share of the sums that the shuffler signed for"
}

// bound is an epsilon in words.
func bound(e privacy.Epsilon) string {
	if v := float64(e); !math.IsInf(v, 0) && !math.IsNaN(v) {
		return "at most epsilon " + privacy.Spell(v)
	}
	return unbounded
}

// many is a number with its noun.
func many[N int | uint32 | uint64](n N, noun string) string {
	if n == 1 {
		return fmt.Sprintf("1 %s", noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
