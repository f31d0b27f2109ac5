package analyzer

import (
	"slices"

	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Progress is what an onlooker may know of a run. All of it is public.
type Progress struct {
	Epoch    uint64         // announced last
	Round    uint32         // announced last
	Epochs   int            // cohorts that the schedule plans
	Final    bool           // the last policy is out
	Policy   glm.Policy     // in force
	Releases []ReleaseStats // counted so far, oldest first
	// Of the epoch's cohort; zero once the last policy is out.
	Size, Minimum uint32
	Rounds        int
	Messages      int     // of one report in the round
	Epsilon       float64 // the largest that a plan so far promises its people, in all epochs that one may report in
	EpsilonAlone  float64 // the same if no other device is honest; +Inf if nothing is left
	Channel       plan.Channel
	Learned       []Learned            // after the newest epochs that released, oldest first
	Answers       []*deployment.Answer // to the newest questions that were answered, oldest first
	Action        string               // what a rule did last
	Acted         uint64               // after this epoch
	WrongShare    string               // why no lift may be relied on; empty: nothing is known against it
}

// Learned is what was known after an epoch.
type Learned struct {
	Epoch   uint64
	Epsilon float64 // of the epoch's whole plan, for the reports that really came
	deployment.Estimate
	Lift, Total *wire.Lift // of the epoch, and of all so far; nil without a control group
	Unchanged   float64    // how probable its sums are if the world is what it was; 0: not tested
	Action      string     // by the rules
}

// trend is how many epochs back the estimate is shown, and answers.
const trend = 50

// ReleaseStats is one counted round.
type ReleaseStats struct {
	Epoch    uint64
	Round    uint32
	Reports  uint32
	Messages int // per report; 0 if nothing left the shuffler
	// Epsilon is of the epoch's whole plan, for the reports of which something left, counted or not; 0 if nothing did.
	Epsilon   float64
	Destroyed bool // nothing of it counts
	Refused   bool // by this analyzer, after the shuffler released it
	// Influence is what dishonest devices can have done to the newest release, and Moved the most of one of them in
	// standard deviations (plan.Announcement.StateInfluence).
	Influence []plan.StatedInfluence
	Moved     float64
}

// Progress describes the run so far.
func (z *Analyzer) Progress() Progress {
	z.mu.Lock()
	defer z.mu.Unlock()
	p := z.progress
	p.Releases, p.Learned = slices.Clone(p.Releases), slices.Clone(p.Learned)
	p.Answers = slices.Clone(p.Answers)
	return p
}

func (z *Analyzer) note(f func(*Progress)) {
	z.mu.Lock()
	defer z.mu.Unlock()
	f(&z.progress)
}
