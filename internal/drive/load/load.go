package load

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/drive/crowd"
	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/pkg/client"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// ErrUnreachable says that a randomizer cannot be reached at the beginning.
var ErrUnreachable = errors.New("load: a randomizer cannot be reached")

// ErrPanels says that the deployment draws its cohorts from registered devices: there the people who come fill no
// cohort, and what they promise is not known to their apps.
var ErrPanels = errors.New("load: this deployment draws panels (admission.mode), and a load test plays people who " +
	"arrive once; riffle demo --life plays a deployment of panels")

// patience is how long what is on its way may take at the end: accounts that do not balance yet, refusals that are not
// counted yet.
const patience = 10 * time.Second

// Run plays all people of the population and returns the result. If ctx ends early, the result covers what happened
// until then.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := errors.Join(o.Faults()...); err != nil {
		return nil, err
	}
	if o.Device == "" {
		var b [6]byte
		rand.Read(b[:])
		o.Device = "load-" + hex.EncodeToString(b[:])
	}
	begin := time.Now()
	c := newSession(ctx, o)
	defer c.Client.Close()
	for i, api := range o.APIs {
		s, err := c.Client.Status(ctx, c.At(i))
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrUnreachable, api, err)
		}
		if s.Panel != nil {
			return nil, ErrPanels
		}
	}
	before, err := allAccounts(ctx, o.Ops, 0)
	if err != nil {
		return nil, err
	}
	out := &Result{Data: o.Population.Info().Name, Anomalies: c.tally.anomalies}
	var public *reader
	if o.Keys != "" {
		if public, err = newReader(ctx, o.Keys, o.Broker); err != nil {
			return nil, err
		}
		defer public.close()
		if err := fits(ctx, public, o); err != nil {
			return nil, err
		}
	}
	var enemy *hostile
	if o.Hostile.Host != "" {
		if enemy, err = newHostile(ctx, o, c.Gate, c.truth, public); err != nil {
			return nil, err
		}
		defer enemy.conn.Close()
	}
	if err := c.play(ctx, enemy, public, out); err != nil {
		return nil, err
	}
	out.Interrupted = ctx.Err() != nil
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*patience)
	defer cancel()
	if err := c.sum(last, enemy, public, before, out); err != nil {
		return nil, err
	}
	out.Seconds = time.Since(begin).Seconds()
	for _, g := range o.Goals {
		out.Goals = append(out.Goals, g.judge(out))
	}
	return out, nil
}

func newSession(ctx context.Context, o Options) *session {
	if o.Concurrency == 0 {
		o.Concurrency = DefaultConcurrency
	}
	c := &session{
		Crowd: crowd.Crowd{
			Population: o.Population, Inside: o.Inside, Client: client.New(client.Options{Connections: o.Concurrency}),
			Devices:     o.Device,
			Concurrency: o.Concurrency, Rate: o.Rate, Ramp: o.Ramp,
			Gate: crowd.NewGate(o.Steady, func(i int, err error) {
				o.Progress.Note("no answer from %s for %s; no person is sent to a new cohort until it answers (%v)",
					o.APIs[i], crowd.Patience, err)
			}),
		},
		o: o, manner: o.Shares.manners(o.Seed), truth: newTruth(), tally: newTally(),
		decisions: &latency{}, rewards: &latency{}, lateContext: ctx,
		speed: &throughput{begin: time.Now(), per: map[int]int{}},
	}
	for _, api := range o.APIs {
		c.Randomizers = append(c.Randomizers, client.At(api))
	}
	c.Serve = func(ctx context.Context, v crowd.Visit) (bool, error) { return false, c.serve(ctx, v) }
	c.Waiting = func(yes bool) {
		if yes {
			c.phase(waitingForCohort)
		} else {
			c.phase(deciding)
		}
	}
	return c
}

// play drives the people and waits until their promised reports are released.
func (c *session) play(ctx context.Context, enemy *hostile, public *reader, out *Result) error {
	o := c.o
	o.Progress.Update(func(s *progress.State) { s.Phase, s.Total = deciding, o.Population.Info().People })
	g, watching := errgroup.WithContext(ctx)
	watching, stop := context.WithCancel(watching)
	defer stop()
	g.Go(func() error { return quiet(watching, c.Follow(watching)) })
	if enemy != nil {
		g.Go(func() error { return quiet(watching, enemy.run(watching)) })
	}
	g.Go(func() error {
		defer stop()
		begin := time.Now()
		defer func() { out.WorkSeconds = time.Since(begin).Seconds() }()
		if err := c.Drive(watching); err != nil {
			return quiet(ctx, fmt.Errorf("load: %w", err))
		}
		short, note, err := c.shortfall(watching, public)
		if err != nil {
			return quiet(ctx, err)
		}
		if out.Short = short; short != nil {
			note = fmt.Sprintf("%s: %s", ShortfallReason, short)
		}
		if note != "" {
			o.Progress.Note("%s", note)
		}
		c.phase(waitingForCounts)
		c.late.Wait()
		if public == nil {
			return nil
		}
		if err := public.awaitCounts(watching, c.truth, short, o.Settle, c.showCounted); err != nil {
			out.Unsettled = err.Error()
		}
		if enemy != nil {
			crowd.Pause(watching, delivery) // what it sent last is on its way
		}
		return nil
	})
	return g.Wait()
}

// showCounted shows how many of the promised reports are counted.
func (c *session) showCounted(reports, promised int) {
	c.o.Progress.Update(func(s *progress.State) { s.Counted, s.Work, s.AllWork = reports, reports, promised })
}

// quiet drops the error of something that was asked to stop.
func quiet(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, ctx.Err())) {
		return nil
	}
	return err
}

// fits reports whether the population has the family, dimension and rewards that the deployment learns.
func fits(ctx context.Context, r *reader, o Options) error {
	l, err := r.read(ctx)
	if err != nil || len(l.order) == 0 {
		return err
	}
	policy, info := l.announced[l.order[0]].Policy, o.Population.Info()
	if policy.Dimension != info.Dim || policy.Family != info.Family || policy.MaxReward != info.MaxReward {
		return fmt.Errorf("load: the deployment learns a %s model in %d dimensions with rewards up to %g; "+
			"the population %q is for a %s model in %d dimensions with rewards up to %g",
			policy.Family, policy.Dimension, policy.MaxReward, info.Name, info.Family, info.Dim, info.MaxReward)
	}
	last := l.announced[l.order[len(l.order)-1]]
	taken, _ := countEnrolled(ctx, o.Ops, last.Epoch)
	if size := int(last.Cohort.Size) - taken; !o.Steady && !last.Final && info.People < size {
		o.Progress.Note("%s is ahead: the cohort of epoch %d takes in %d more people, and %d come",
			ShortfallReason, last.Epoch, size, info.People)
	}
	return nil
}

// sum adds everything up.
func (c *session) sum(ctx context.Context, enemy *hostile, public *reader, before []Account, out *Result) error {
	t := c.tally
	t.mu.Lock()
	out.Decided, out.Sampled, out.Unsampled = t.decided, t.sampled, t.unsampled
	out.DropOuts, out.Rewarded, out.Repeats = t.drop, t.rewards, t.repeats
	out.Regret, out.UniformRegret = t.regret, t.uniform
	t.mu.Unlock()
	out.Rate, out.PeakRate = c.speed.rates()
	out.Decisions, out.Rewards = c.decisions.result(), c.rewards.result()
	out.Refusals = t.list()
	for _, f := range out.Refusals {
		if !f.Provoked {
			out.Unexpected += f.Count
		}
	}
	if public != nil {
		if err := c.compareReleases(ctx, public, out); err != nil {
			return err
		}
	}
	if enemy != nil {
		out.Absent -= enemy.lateSent
	}
	var err error
	if enemy == nil {
		out.Accounts, err = allAccounts(ctx, c.o.Ops, patience)
		return err
	}
	return enemy.check(ctx, c.o.Ops, before, out)
}

// compareReleases compares every release of this run's epochs with the truth.
func (c *session) compareReleases(ctx context.Context, r *reader, out *Result) error {
	l, err := r.read(ctx)
	if err != nil {
		return err
	}
	out.Watched, out.Final = true, l.final
	for _, at := range l.order {
		a, m, counts := l.announced[at], l.manifests[at], l.counts[at]
		known := c.truth.of(at.epoch)
		if a.Final || known.sampled == 0 || m == nil {
			continue
		}
		if err := l.holds(at); err != nil {
			out.Anomalies[err.Error()]++
		}
		if at.round == 0 {
			out.Enrolled += int(m.Enrolled)
		}
		if m.Outcome != wire.Released || counts == nil || counts.Destroyed {
			out.Destroyed++
			continue
		}
		out.Reports, out.Messages = out.Reports+int(m.Reports), out.Messages+m.Messages
		if at.round == 0 {
			out.Absent += int(m.Enrolled - m.Reports)
		}
		unguarded := fmt.Sprintf("round %d of epoch %d was released without a guarantee", at.round, at.epoch)
		switch eps, err := epsilon(a, m.Reports); {
		case err != nil:
			out.Anomalies[fmt.Sprintf("%s: %v", unguarded, err)]++
		case math.IsInf(eps, 0) || math.IsNaN(eps):
			out.Anomalies[unguarded]++
		default:
			out.Epsilon = math.Max(out.Epsilon, eps)
		}
		releases, err := r.round(a, m, counts, known)
		if err != nil {
			return err
		}
		for _, rel := range releases {
			if rel.Compared {
				out.Compared++
				out.ChiSquare += rel.ChiSquare
				out.Coordinates += rel.Coordinates
				out.MaxZ = math.Max(out.MaxZ, rel.MaxZ)
			}
		}
		out.Releases = append(out.Releases, releases...)
	}
	if out.Compared > 0 {
		out.TooLarge, out.TooSmall = tails(out.ChiSquare, out.Coordinates)
	}
	return nil
}

// check compares, by reason, what was sent to be refused with what the shuffler says it refused.
func (h *hostile) check(ctx context.Context, ops []string, before []Account, out *Result) error {
	refused := func(all []Account, reason string) (n int, known bool) {
		for _, a := range all {
			if a.Role == "shuffler" && a.Item == "report" {
				n, known = n+a.Refused[reason], true
			}
		}
		return n, known
	}
	h.mu.Lock()
	sent := maps.Clone(h.sent)
	h.mu.Unlock()
	deadline := time.Now().Add(patience)
	for {
		var err error
		if out.Accounts, err = allAccounts(ctx, ops, patience); err != nil {
			return err
		}
		out.Provocations = out.Provocations[:0]
		complete := true
		for _, reason := range slices.Sorted(maps.Keys(sent)) {
			p := Provocation{Reason: reason, Sent: sent[reason]}
			if now, known := refused(out.Accounts, reason); known {
				was, _ := refused(before, reason)
				n := now - was
				p.Refused, complete = &n, complete && n >= p.Sent
			}
			out.Provocations = append(out.Provocations, p)
		}
		if complete || time.Now().After(deadline) || !crowd.Pause(ctx, crowd.Look) {
			break
		}
	}
	for _, p := range out.Provocations {
		if p.Refused != nil && *p.Refused < p.Sent {
			out.Anomalies["hostile reports were not refused as "+p.Reason] += p.Sent - *p.Refused
		}
	}
	return nil
}
