package audit

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Options say whom an audit trusts, and what else it has.
type Options struct {
	// Trust names the deployment and the keys that its statements must be signed with. They should come from elsewhere
	// than the logs.
	Trust keyring.Bundle
	// Auditor opens what was retained; AnalyzerKeys count it again. Either may be empty.
	Auditor, AnalyzerKeys []*seal.HPKEKey
	// Views are what others saw of the same logs.
	Views []View
	// Witnesses are whose cosignatures are looked for, on the checkpoints of the source and of the views.
	Witnesses []Witness
	// Tolerance is by how much, relative to the largest number of a vector, a recomputed number may differ: 0, the
	// default, where this runs on the analyzer's processor architecture; RoundingTolerance elsewhere.
	Tolerance float64
	// Row is called with each round that is over, in order; may be nil. An audit itself keeps no rows, so that its
	// memory does not grow with the deployment.
	Row func(Row)
}

// RoundingTolerance covers what rounding explains between processor architectures: a compiler may fuse a multiplication
// with an addition, and linear algebra adds in another order. Double precision has 1e-16, and the learner's systems of
// equations are conditioned far better than 1e7.
const RoundingTolerance = 1e-9

// View is what somebody saw of the logs: checkpoints, and the logs themselves where there are any.
type View struct {
	Name        string // in breaches: the file or folder
	Checkpoints map[bus.Role][]byte
	Source      Source // may be nil
}

// Witness is whose cosignature is looked for.
type Witness struct {
	Name string
	Key  []byte // Ed25519 public key
}

// Check audits a deployment. It reads each log once, in the order in which the roles wrote, and keeps nothing of a
// round that is over. An error means that the audit did not run to its end: the source's, or of options that cannot be
// used.
func Check(ctx context.Context, source Source, o Options) (*Report, error) {
	if err := o.Trust.Validate(); err != nil {
		return nil, fmt.Errorf("audit: the keys to trust: %w", err)
	}
	if !(o.Tolerance >= 0 && o.Tolerance < 1) {
		return nil, fmt.Errorf("audit: a tolerance of %v, must be at least 0 and below 1", o.Tolerance)
	}
	c := &checker{ctx: ctx, source: source, o: o, report: &Report{
		OK: true, Deployment: o.Trust.Deployment, Running: true, Witnessed: []Witnessed{}, Breaches: []Breach{},
		Notes: []string{},
	}, keys: map[[seal.HPKEKeySize]byte]bool{}, opened: map[roundID]bool{}}
	c.analyzer = c.follow(ctx, bus.Analyzer, o.Trust.AnalyzerParty())
	defer c.analyzer.stop()
	c.shuffler = c.follow(ctx, bus.Shuffler, o.Trust.ShufflerParty())
	defer c.shuffler.stop()
	err := c.run()
	if err == nil && c.report.OK {
		err = c.unchecked
	}
	if err != nil {
		return nil, err
	}
	return c.report, nil
}

// checker is an audit under way.
type checker struct {
	ctx                context.Context
	source             Source
	o                  Options
	report             *Report
	analyzer, shuffler *chain

	begun         bool // a statement was read
	configuration *wire.Configuration
	machine       *deployment.Machine // nil: nothing can be recomputed (any more)
	previous      []byte              // digest of the last announcement; nil before the first
	current       *round              // announced last; nil before the first
	before        *wire.Manifest      // of the round before, in the same epoch
	promised      promise             // of the epoch
	lived         lived               // in deployments of panels
	key           []byte              // HPKE key of the last announcement
	keys          map[[seal.HPKEKeySize]byte]bool
	drawing       drawing          // what is known of all panels
	opened        map[roundID]bool // rounds of which something is retained, that have a manifest
	enough        string           // the manifest of the first cohort that was destroyed with reports enough
	partly        int              // of how many of those something may have left
	firstPartly   string           // the statement that says so of the first
	unbounded     bool             // something left that no announced plan bounds
	stated        []byte           // digest of the policy that was learned last
	unchecked     error            // why a view could not be compared; nil: all were
	ended         bool             // the last announcement was read
}

// round is a round from its announcement to what was learned.
type round struct {
	*statement
	a        *plan.Announcement
	pool     *pooled    // of plans of panels; nil: none was read
	draw     *wire.Draw // the same
	accepted *wire.Accepted
	mixed    *mixture     // nil: no manifest was read
	summed   *wire.Summed // the first that was read; in the channel shares
	shared   *statement   // of summed
	counts   *wire.Counts
	counted  *statement    // the counts
	learned  *wire.Learned // as it must be; nil: it could not be computed
	known    bool          // what was learned was read
	row      Row
}

// promise is what an epoch's plan reveals, at the delta of the terms.
type promise struct{ epsilon, alone float64 }

func (c *checker) breach(what What, entry, release, format string, v ...any) {
	c.report.breach(Breach{What: what, Entry: entry, Release: release, Detail: fmt.Sprintf(format, v...)})
}

// wrong is a breach that a statement proves.
func (c *checker) wrong(what What, s *statement, format string, v ...any) {
	c.breach(what, s.name, s.release(), format, v...)
}

// run reads the analyzer's log to its end, the shuffler's as far as each round needs it, and then the rest.
func (c *checker) run() error {
	if err := c.checkpoints(); err != nil {
		return err
	}
	for {
		s, err := c.analyzer.take()
		if err != nil {
			return err
		}
		if s == nil {
			break
		}
		if err := c.said(s); err != nil {
			return err
		}
	}
	if err := c.rest(); err != nil {
		return err
	}
	if d, ok := c.source.(*Folder); ok {
		if err := c.stray(d); err != nil {
			return err
		}
	}
	for _, l := range []*chain{c.analyzer, c.shuffler} {
		if err := l.end(c.ctx); err != nil {
			return err
		}
	}
	c.conclude()
	return nil
}

// checkpoints reads those of the source and of the views.
func (c *checker) checkpoints() error {
	for _, l := range []*chain{c.analyzer, c.shuffler} {
		note, err := c.source.Checkpoint(c.ctx, l.role)
		if errors.Is(err, ErrFolder) {
			c.breach(CheckpointForged, checkpointFile(l.role), "", "it cannot be read: %v", err)
		} else if err != nil {
			return err
		}
		if note != nil {
			l.checkpoint(note, string(l.role)+".checkpoint", nil)
		}
		for i := range c.o.Views {
			v := &c.o.Views[i]
			if note := v.Checkpoints[l.role]; note != nil {
				l.checkpoint(note, v.Name, v)
			} else if err := l.shown(c.ctx, v); err != nil {
				return err
			}
		}
	}
	if d, ok := c.source.(*Folder); ok {
		return c.certified(d)
	}
	return nil
}

// said takes the analyzer's next statement.
func (c *checker) said(s *statement) error {
	c.report.Entries.Analyzer++
	if _, ok := s.value.(*wire.Configuration); !ok && !c.begun {
		c.wrong(ConfigurationMissing, s, "the first entry of the analyzer's log must be its configuration, from "+
			"which with the counts everything follows; so nothing can be recomputed")
	}
	c.begun = true
	switch v := s.value.(type) {
	case *wire.Configuration:
		c.configured(s, v)
	case *plan.Announcement:
		return c.announced(s, v)
	case *wire.Draw:
		return c.drawn(s, v)
	case *wire.Accepted:
		c.accepted(s, v)
	case *wire.Counts:
		return c.counted(s, v)
	case *wire.Learned:
		return c.learned(s, v)
	}
	return nil
}

// configured makes the machine that everything is compared with.
func (c *checker) configured(s *statement, v *wire.Configuration) {
	if c.configuration != nil || c.previous != nil {
		c.wrong(ConfigurationChanged, s, "the configuration stands once, before the first announcement: learner and "+
			"terms of a deployment do not change")
		return
	}
	c.configuration = v
	c.report.Channel, c.report.Delta = v.Terms.Channel, v.Terms.Delta
	c.report.Promise, c.report.Alarm = v.Terms.Epsilon, v.Learner.Practical.Alarm
	var err error
	if c.machine, err = deployment.New(*v); err != nil {
		c.wrong(ConfigurationRefused, s, "no plan follows from the configuration: %v", err)
		c.machine = nil
	}
}

// lost gives up recomputing.
func (c *checker) lost(s *statement) {
	if c.machine != nil {
		c.machine = nil
		c.report.note("Nothing after %s was recomputed: what is wrong there leaves no state to go on from.", s.name)
	}
}

// conclude adds to the report what is known at the end.
func (c *checker) conclude() {
	r := c.report
	r.Entries = Entries{c.analyzer.tree.Size(), c.shuffler.tree.Size()}
	r.Running = !c.ended
	c.panels()
	if r.Running {
		r.note("The last announcement is not out: the deployment is still running, or its log ends early.")
	}
	c.destroyed()
	if c.unbounded {
		r.EpsilonSoFar = privacy.Epsilon(math.Inf(1))
	}
	if len(c.o.Views) == 0 && len(r.Witnessed) == 0 {
		r.note("No witness's checkpoint and no other view was compared: a role could show others another log.")
	}
	if r.Epsilon == 0 && r.Releases+r.Destroyed == 0 {
		r.note("No round is over yet.")
	}
	for _, w := range c.o.Witnesses {
		signed := map[bus.Role]bool{}
		for _, one := range r.Witnessed {
			signed[one.Role] = signed[one.Role] || one.Witness == w.Name
		}
		for _, l := range []*chain{c.analyzer, c.shuffler} {
			if !signed[l.role] {
				r.note("The witness %s co-signed no checkpoint of the %s's log among those that were given.", w.Name,
					l.role)
			}
		}
	}
}

// destroyed adds what a reader must know of the cohorts that the shuffler destroyed.
func (c *checker) destroyed() {
	r := c.report
	if r.Enough > 0 {
		r.note("Of the cohorts that the shuffler says it destroyed, %d had at least the announced minimum of "+
			"reports, the first in %s. No statement says why. An honest shuffler does it where it asks for more "+
			"reports than was announced, where reports were lost, and in the channel shares where the analyzer "+
			"accepts too few. A shuffler that destroys what it does not like chooses whose reports count: ask its "+
			"operator about each.", r.Enough, c.enough)
	}
	if c.partly > 0 {
		r.note("Of %d cohorts that the shuffler destroyed a part may have left before, the first by %s. The audit "+
			"counts them as spent like those that left whole.", c.partly, c.firstPartly)
	}
}

// planned takes a plan's guarantee into the totals.
func (c *checker) planned(p promise) {
	c.report.Epsilon = privacy.Epsilon(math.Max(float64(c.report.Epsilon), p.epsilon))
	c.report.EpsilonAlone = privacy.Epsilon(math.Max(float64(c.report.EpsilonAlone), p.alone))
}
