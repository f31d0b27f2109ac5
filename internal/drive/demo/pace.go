package demo

import (
	"fmt"
	"runtime"
	"time"

	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/internal/planner"
	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// handled is the CPU time that a report takes on its way to the shuffler beside cryptography, and once more until it is
// counted: API, broker and disk. Measured over runs of 5000 people in each channel on two cores of an AMD EPYC: 1.3 to
// 1.9 ms.
const handled = 1500 * time.Microsecond

// A pace is how much wall time the parts of a run take on this machine, by what was measured before the run. Progress
// counts in its units, microseconds, so that an epoch's waiting and a person's encryption weigh what they take.
type pace struct {
	arrive, count int // a report of one round: until it has arrived, and to count it
	wait          int // of each round, whatever its people: the reward window and the jitter
	epochs        int
	rounds        int  // of an epoch
	bits          bool // whether reports are made of bit messages
}

// paceOf measures this machine's cryptography and prices the run's plan by it.
func paceOf(o Options) (p pace, err error) {
	machine, err := planner.Measure()
	if err != nil {
		return pace{}, err
	}
	var cpu planner.CPU
	var priced error
	err = o.settings().Planned(func(_ learner.Step, of *plan.Proposal) {
		if p.epochs++; p.epochs > 1 { // one cohort tells: only sizes differ
			return
		}
		p.rounds = max(1, len(of.Plan.Rounds))
		// where a curator reads records, there are no releases
		work := play.Work{Channel: plan.Central, Rounds: p.rounds}
		if of.Plan.Curator == nil {
			work = play.CostOf(of).Work
		}
		cpu, priced = machine.CPU(work)
	})
	if err == nil {
		err = priced
	}
	if err != nil {
		return pace{}, fmt.Errorf("demo: %w", err)
	}
	cores := float64(runtime.NumCPU())
	wall := func(seconds float64) int {
		of := seconds*float64(time.Second)/float64(p.rounds) + float64(handled)
		return max(1, int(of/cores/float64(time.Microsecond)))
	}
	p.arrive, p.count = wall(cpu.Device+cpu.Shuffler), wall(cpu.Analyzer)
	p.bits = o.trust() == plan.Shuffle
	reward, jitter := window(o.trust())
	p.wait = int((reward + jitter).Microseconds())
	return p, nil
}

// all is the whole run.
func (p pace) all(people int) int { return p.rounds * (people*(p.arrive+p.count) + p.epochs*p.wait) }

// progress is how much of a run is done.
func (p pace) progress(arrived, counted, rounds int) int {
	return arrived*p.arrive + counted*p.count + rounds*p.wait
}

// expect tells progress how long all of it will take.
func (p pace) expect(s *progress.State, people int) {
	s.AllWork, s.Unit = p.all(people), time.Microsecond
}
