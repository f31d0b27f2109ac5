package audit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

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
	c := newChecker(ctx, source, o)
	defer c.analyzer.stop()
	defer c.shuffler.stop()
	if err := c.run(ctx); err != nil {
		return nil, err
	}
	if err := cmp.Or(c.shuffler.unchecked, c.analyzer.unchecked); err != nil && c.report.OK {
		return nil, err
	}
	return c.report, nil
}

// checker is an audit under way: it reads the analyzer's log statement by statement, and hands each to what judges it.
type checker struct {
	*findings
	source             Source
	o                  Options
	analyzer, shuffler *chain

	succession succession
	replay     replay
	drawing    drawing
	releases   releases
	sets       sets
	retention  retention
	spending   spending
	issued     issued

	begun      bool // a statement was read
	configured bool // the configuration was read
	current    *round
	ended      bool // the last announcement was read
}

func newChecker(ctx context.Context, source Source, o Options) *checker {
	f := &findings{tolerance: o.Tolerance, report: &Report{OK: true, Deployment: o.Trust.Deployment, Running: true,
		Witnessed: []Witnessed{}, Breaches: []Breach{}, Notes: []string{}}}
	c := &checker{findings: f, source: source, o: o,
		analyzer:   follow(ctx, f, source, bus.Analyzer, o),
		shuffler:   follow(ctx, f, source, bus.Shuffler, o),
		succession: succession{findings: f, keys: map[[seal.HPKEKeySize]byte]bool{}},
		replay:     replay{findings: f, announced: o.Announced},
		drawing:    drawing{findings: f, seen: map[[panel.ContributionSize]byte]string{}},
		sets:       sets{findings: f},
		retention: retention{findings: f, source: source, trust: o.Trust, auditor: o.Auditor,
			analyzer: o.AnalyzerKeys, rounds: map[roundID]bool{}},
		spending: spending{findings: f},
		issued:   issued{findings: f, registrar: o.RegistrarDevices},
	}
	c.releases = releases{findings: f, log: c.shuffler, drawing: &c.drawing, sets: &c.sets}
	return c
}

// run reads the analyzer's log to its end, the shuffler's as far as each round needs it, and then the rest.
func (c *checker) run(ctx context.Context) error {
	for _, l := range c.o.Issued {
		if err := c.issued.read(l, c.o.Trust.RegistrarParty()); err != nil {
			return err
		}
	}
	export, _ := c.source.(*Folder)
	if err := c.checkpoints(ctx, export); err != nil {
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
		if err := c.judge(ctx, s); err != nil {
			return err
		}
	}
	if r := c.current; r != nil && !r.known {
		if err := c.abandon(ctx, r); err != nil {
			return err
		}
	}
	if err := c.releases.finish(c.current); err != nil {
		return err
	}
	if export != nil {
		if err := checkFiles(c.findings, export, c.o.Trust, c.retention.has); err != nil {
			return err
		}
	}
	for _, l := range c.logs() {
		if err := l.end(ctx); err != nil {
			return err
		}
	}
	c.conclude()
	return nil
}

func (c *checker) logs() []*chain { return []*chain{c.analyzer, c.shuffler} }

// checkpoints reads those of the source, of the views, and of an export's certificates; export is nil of other sources.
func (c *checker) checkpoints(ctx context.Context, export *Folder) error {
	for _, l := range c.logs() {
		note, err := c.source.Checkpoint(ctx, l.role)
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
			} else if err := l.checkView(ctx, v); err != nil {
				return err
			}
		}
	}
	if export == nil {
		return nil
	}
	return checkCertificates(ctx, c.findings, export, c.o.Trust, func(v *View) {
		for _, l := range c.logs() {
			l.checkpoint(v.Checkpoints[l.role], v.Name, v)
		}
	})
}

// judge takes the analyzer's next statement.
func (c *checker) judge(ctx context.Context, s *statement) error {
	if _, ok := s.value.(*wire.Configuration); !ok && !c.begun {
		c.wrong(ConfigurationMissing, s, "the first entry of the analyzer's log must be its configuration, from "+
			"which with the counts everything follows; so nothing can be recomputed")
	}
	c.begun = true
	switch v := s.value.(type) {
	case *wire.Configuration:
		c.configure(s, v)
	case *plan.Announcement:
		return c.announce(ctx, s, v)
	case *wire.Draw:
		return c.draw(s, v)
	case *wire.Accepted:
		c.sets.accept(s, v, c.current)
	case *wire.Counts:
		return c.count(ctx, s, v)
	case *wire.Learned:
		return c.learn(s, v)
	}
	return nil
}

// configure begins what everything is compared with.
func (c *checker) configure(s *statement, v *wire.Configuration) {
	if c.configured || c.current != nil {
		c.wrong(ConfigurationChanged, s, "there is one configuration, before the first announcement: learner and "+
			"terms of a deployment do not change")
		return
	}
	c.configured = true
	c.report.Channel, c.report.Delta = v.Terms.Channel, v.Terms.Delta
	c.report.Promise, c.report.Alarm = v.Terms.Epsilon, v.Learner.Practical.Alarm
	if schema, err := feature.Open(v.Schema); err == nil {
		c.report.Terms = schema.Names()
	}
	c.spending.terms = &v.Terms
	c.replay.begin(s, *v)
}

// announce begins a round.
func (c *checker) announce(ctx context.Context, s *statement, a *plan.Announcement) error {
	last := c.current
	if last != nil && (!last.known || c.ended) {
		before := last.a
		if before.Epoch == a.Epoch && before.Round == a.Round && before.Final == a.Final {
			c.wrong(OutOfOrder, s, "round %d of epoch %d was announced in %s already", a.Round, a.Epoch, last.name)
			return nil
		}
		c.wrong(OutOfOrder, s, "it was announced before round %d of epoch %d was over", before.Round, before.Epoch)
		c.replay.giveUp(s)
		if err := c.abandon(ctx, last); err != nil {
			return err
		}
	}
	c.succession.add(s, a)
	c.drawing.commit(s, a)
	c.replay.announce(s, a)
	r := newRound(s, a, last)
	c.current, c.ended = r, a.Final
	if !a.Final {
		c.spending.promise(r)
	}
	return nil
}

// draw holds a draw to the announcement, and to the shuffler's pool that it answers.
func (c *checker) draw(s *statement, v *wire.Draw) error {
	r := c.current
	if !c.drawing.draw(s, v, r) {
		return nil
	}
	if err := c.releases.pool(r); err != nil {
		return err
	}
	c.drawing.answer(s, v, r)
	return nil
}

// count holds counts against announcement and manifest, and computes what must be learned from them.
func (c *checker) count(ctx context.Context, s *statement, v *wire.Counts) error {
	r := c.current
	switch {
	case r == nil || r.a.Final || v.Epoch > r.a.Epoch || v.Epoch == r.a.Epoch && v.Round > r.a.Round:
		c.wrong(OutOfOrder, s, "its round is not announced yet")
		return nil
	case v.Epoch < r.a.Epoch || v.Round < r.a.Round || r.counts != nil:
		c.wrong(DoubledCounts, s, "round %d of epoch %d was counted before, or is over", v.Round, v.Epoch)
		return nil
	}
	r.counts, r.counted = v, s
	c.about(s, v.Announcement, r)
	x, err := c.releases.manifest(r)
	if err != nil {
		return err
	}
	if x == nil {
		c.wrong(ManifestMissing, s, "the shuffler's log has no manifest of round %d of epoch %d", v.Round, v.Epoch)
	} else {
		c.releases.count(s, v, x)
		if err := c.retention.check(ctx, x, r); err != nil {
			return err
		}
	}
	c.replay.absorb(s, v, r)
	r.fill()
	c.spending.spend(s, r)
	return nil
}

// abandon ends a round whose last statement is not there: one that is under way, or that the analyzer left behind.
func (c *checker) abandon(ctx context.Context, r *round) error {
	r.known = true
	if r.counts != nil {
		return c.over(r)
	}
	x, err := c.releases.manifest(r)
	if err != nil || x == nil && r.summed == nil {
		return err
	}
	s := r.shared
	if x != nil {
		if err := c.retention.check(ctx, x, r); err != nil {
			return err
		}
		s = x.statement
	}
	r.fill()
	c.spending.spend(s, r)
	if r.row.Left {
		c.report.note("By %s messages of round %d of epoch %d left the shuffler, or may have, and the analyzer "+
			"signed no counts of it. It had them, so that what the plan reveals is spent, whatever it signs "+
			"later.", s.name, r.a.Round, r.a.Epoch)
	}
	return c.over(r)
}

// learn holds what the analyzer says that it learned against what follows from the counts.
func (c *checker) learn(s *statement, v *wire.Learned) error {
	r := c.current
	switch {
	case r == nil || r.a.Final || r.counts == nil || v.Epoch > r.a.Epoch || v.Epoch == r.a.Epoch && v.Round > r.a.Round:
		c.wrong(OutOfOrder, s, "its round was not counted yet")
		return nil
	case v.Epoch < r.a.Epoch || v.Round < r.a.Round || r.known:
		c.wrong(DoubledCounts, s, "what was learned of round %d of epoch %d was said before, or it is over", v.Round,
			v.Epoch)
		return nil
	}
	r.known = true
	c.about(s, v.Announcement, r)
	if !bytes.Equal(v.Counts, r.counted.digest[:]) || v.Destroyed != r.counts.Destroyed {
		c.wrong(LearnedOther, s, "it is about the counts %x, destroyed: %t; %s has the digest %x, destroyed: %t",
			short(v.Counts), v.Destroyed, r.counted.name, short(r.counted.digest[:]), r.counts.Destroyed)
	}
	c.replay.learn(s, v, r)
	r.row.Lift, r.row.Total, r.row.Unchanged, r.row.Action = LiftOf(v.Lift), LiftOf(v.Total), v.Unchanged, v.Action
	if r.row.Total != nil {
		c.report.Lift = r.row.Total
	}
	return c.over(r)
}

// over ends a round: what people have spent up to it is known, and its row is handed out.
func (c *checker) over(r *round) error {
	c.spending.sum(r)
	c.issued.over(r)
	if err := c.releases.again(r); err != nil {
		return err
	}
	if c.o.Row != nil {
		c.o.Row(r.row)
	}
	return nil
}

// conclude adds to the report what is known at the end.
func (c *checker) conclude() {
	r := c.report
	r.Entries = Entries{c.analyzer.tree.Size(), c.shuffler.tree.Size()}
	r.Running = !c.ended
	c.drawing.conclude()
	if r.Running {
		r.note("The last announcement is not out: the deployment is still running, or its log ends early.")
	}
	c.releases.conclude()
	c.issued.conclude()
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
		for _, l := range c.logs() {
			if !signed[l.role] {
				r.note("The witness %s co-signed no checkpoint of the %s's log among those that were given.", w.Name,
					l.role)
			}
		}
	}
}
