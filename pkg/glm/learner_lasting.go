package glm

import "fmt"

// Unchanged is how probable it is that the sums absorbed last are at least so far from what was known before, if the
// parameter is what it was: a p-value in (0, 1], of practicalRun.unchanged. 0 where nothing was tested: before the
// first cohort, after the first one unless the configuration brings knowledge, where the configuration has nothing of
// deployments that last, and in the paper profile. It is post-processing of released sums.
func (l *Learner) Unchanged() float64 {
	if r, ok := l.run.(*practicalRun); ok {
		return r.likely
	}
	return 0
}

// Rollback takes up the policy before the last one again, with the knowledge that it was made of. Called after Absorb
// has taken the sums of an epoch, whose policy they showed to be bad, it makes the next policy that of the epoch
// before; what the cohorts of both epochs said is forgotten. Epoch numbers go on. It goes one step back: to go back
// again, two more cohorts must be absorbed. Otherwise, and in the paper profile, it is ErrRollback, and nothing has
// changed.
func (l *Learner) Rollback() error {
	r, ok := l.run.(*practicalRun)
	if !ok {
		return fmt.Errorf("%w: the profile %q keeps none", ErrRollback, l.cfg.Profile)
	}
	if len(r.before) < 2 {
		return fmt.Errorf("%w before that of epoch %d", ErrRollback, l.epoch-1)
	}
	r.knowledge, r.before = r.before[0], nil
	return nil
}

// Stop makes every later policy play the default arm alone, for good. Cohorts are still asked and absorbed. The coin
// of the control group is still thrown, so that both groups can be compared: both get the default arm.
func (l *Learner) Stop() { l.stopped = true }

// stop is the policy after Stop, and before it the policy given.
func (l *Learner) stop(p Policy) Policy {
	if l.stopped {
		p.Play, p.Stages, p.Scaling, p.Explore, p.Caution = PlayDefault, nil, nil, 0, 0
	}
	return p
}
