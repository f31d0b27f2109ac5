// Package analyzer is the role that learns: it announces policies and plans, has a channel count what people's devices
// reported, gives the sums to the learner, and announces the next policy.
//
// # What it guarantees
//
// All its state is a function of its configuration and of counts that it signed and appended to the audit log before it
// went on. After a crash it replays them; its announcements are the same byte for byte, and it stops if they would not
// be. The audit log holds everything from which that follows, in this order: the configuration, and of each round the
// announcement, the counts and what was learned from them. Nothing acts on what is not in the audit log yet: no device
// sees an announcement, and no manifest counts. No plan is announced whose guarantee is weaker than configured.
//
// Where cohorts are panels, it commits to its contribution to the seed in the announcement, and reveals it once, in the
// audit log, after the shuffler's pool stands there. The contribution follows from its identity and from what was
// announced before, so that no restart changes it. Of several pools the first counts; from one of fewer devices than
// were announced nothing is drawn. What came of a cohort that was not drawn is not looked at. In the channels in which
// it sees who took part it counts only devices that can be in the panel (channel.Drawn), in as many epochs as the plan
// says.
//
// # What it does not guarantee
//
// How counts come about, and what the analyzer sees of people meanwhile, is a matter of the channel (package channel);
// devices judge for themselves whether an announced plan is private enough. If the shuffler is malicious the sums can
// be wrong.
package analyzer

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/envelope"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/translog"
	"github.com/riffle-dp/riffle/internal/worker"
	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Config is what an analyzer needs.
type Config struct {
	Deployment string
	Identity   *seal.Identity  // signs announcements and counts
	Keys       []*seal.HPKEKey // for messages of devices, newest first; older ones open what is on its way
	Shuffler   []byte          // Ed25519 public key that manifests must be signed with
	Learner    learner.Config
	Anytime    bool // go on after Learner.Horizon people, without a last policy
	Batch      int  // people of a cohort in the profile joint, a leaf of its trees; 0: the default
	Terms      plan.Terms
	Timing     plan.Timing
	Rules      plan.Rules
	Schema     []byte // canonical, of features; empty: none
	Bus        Broker
	LogPath    string           // file that keeps the transparency log; empty: the audit log alone keeps it
	LogJournal translog.Journal // keeps it in place of a file; may be nil
	Version    string           // of this program, as statements name it
	Disk       channel.Disk     // for the channel; belongs to one process; nil: none, which shares and central refuse
	Pool       worker.Pool      // does what WorkerHandlers can; nil: this process alone, without tasks
	Memory     int64            // bytes that counting may take, beside what grows with people; 0: DefaultMemory
	Scratch    string           // folder for what does not fit into it; belongs to one process; empty: a temporary one
	Source     protocol.Source  // of the analyzer's noise: a CSPRNG; nil: the system's
	Registrar  []byte           // Ed25519 public key that credentials of hosts must be signed with
	Hosts      *wire.Hosts      // whose keys were replaced or withdrawn; nil: none
	HostShare  float64          // largest share of a cohort that one host's devices may be; 0: 1, all of it
	Clock      role.Clock       // nil: the system's
	Log        zerolog.Logger
	Messages   *outcome.Outcomes // account of the channel's messages, made with Reasons
	Steps      *role.Steps       // made with Steps; may be nil
	// Notice hears of a condition of readiness that is met (nil) or not, by name. May be nil.
	Notice func(condition string, err error)
}

// manifestCondition is the readiness condition that a published manifest stands in the audit log.
const manifestCondition = "manifest"

func (c Config) notice(condition string, err error) {
	if c.Notice != nil {
		c.Notice(condition, err)
	}
}

// ErrConfigChanged says that the deployment's past announcements do not follow from this configuration.
var ErrConfigChanged = errors.New("analyzer: what was announced before does not follow from this configuration; " +
	"start a new deployment, or restore the old configuration")

// Analyzer is the running role.
type Analyzer struct {
	c         Config
	bus       logged // set by Run
	machine   *deployment.Machine
	published chan struct{} // holds a token after a manifest arrived
	few       bool          // the pool under way is too small, and that was said
	manifests manifests     // that the audit log showed

	mu       sync.Mutex
	progress Progress
	counting channel.Counting // nil before Run
}

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
	Learned       []Learned // after the newest epochs that released, oldest first
	Action        string    // what a rule did last
	Acted         uint64    // after this epoch
	WrongShare    string    // why no lift may be relied on; empty: nothing is known against it
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

// trend is how many epochs back the estimate is shown.
const trend = 50

// ReleaseStats is one counted round.
type ReleaseStats struct {
	Epoch     uint64
	Round     uint32
	Reports   uint32
	Messages  int     // per report; 0 if nothing left the shuffler
	Epsilon   float64 // of the epoch's whole plan, for the reports of which something left, counted or not; 0 if nothing did
	Destroyed bool    // nothing of it counts
	Refused   bool    // by this analyzer, after the shuffler released it
	// Influence is what dishonest devices can have done to the newest release, and Moved the most of one of them in
	// standard deviations (plan.Announcement.StateInfluence).
	Influence []plan.StatedInfluence
	Moved     float64
}

// New checks the configuration as a whole: the learner's, and that a plan can be made for every cohort of the schedule.
func New(c Config) (*Analyzer, error) {
	if len(c.Keys) == 0 {
		return nil, fmt.Errorf("analyzer: no HPKE key")
	}
	c.Terms.Channel = cmp.Or(c.Terms.Channel, plan.Shuffle)
	if c.Disk == nil && (c.Terms.Channel == plan.Shares || c.Terms.Channel == plan.Central) {
		return nil, fmt.Errorf("analyzer: the channel %s needs a folder for state: "+
			"the analyzer must remember whom it counted", c.Terms.Channel)
	}
	if c.Source == nil {
		c.Source = entropy.New()
	}
	if c.Clock == nil {
		c.Clock = role.SystemClock()
	}
	machine, err := deployment.New(c.configuration())
	if err != nil {
		return nil, err
	}
	return &Analyzer{
		c: c, machine: machine, published: make(chan struct{}, 1), progress: Progress{Epochs: len(machine.Schedule())},
	}, nil
}

// configuration is the public part, from which with the counts all announcements follow.
func (c Config) configuration() wire.Configuration {
	return wire.Configuration{
		Deployment: c.Deployment, Learner: c.Learner, Anytime: c.Anytime, Batch: c.Batch, Terms: c.Terms, Timing: c.Timing,
		Schema: c.Schema, Rules: c.Rules,
	}
}

// Progress describes the run so far.
func (z *Analyzer) Progress() Progress {
	z.mu.Lock()
	defer z.mu.Unlock()
	p := z.progress
	p.Releases, p.Learned = slices.Clone(p.Releases), slices.Clone(p.Learned)
	return p
}

// Run announces, counts and learns until the context ends. After the last policy it only keeps running.
func (z *Analyzer) Run(ctx context.Context) (err error) {
	log, err := translog.Open(ctx, translog.Config{
		Deployment: z.c.Deployment, Role: bus.Analyzer, Identity: z.c.Identity, Broker: z.c.Bus, Path: z.c.LogPath,
		Journal: z.c.LogJournal, Log: z.c.Log,
	})
	if err != nil {
		return fmt.Errorf("analyzer: %w", unlogged("all that was said before", err))
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	z.bus = logged{z.c.Bus, log}
	past, err := z.past(ctx)
	if err != nil {
		return err
	}
	if err := z.c.provisioned(ctx); err != nil {
		return err
	}
	scratch, clean, err := z.c.scratch()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, clean()) }()
	counting, err := z.c.counting(z.bus, z.machine.Curated(), past, scratch)
	if err != nil {
		return err
	}
	z.mu.Lock()
	z.counting = counting
	z.mu.Unlock()
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return z.receive(ctx) })
	both.Go(func() error {
		if err := z.learn(ctx, past); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
	return both.Wait()
}

// learn is the loop from the first announcement to the last.
func (z *Analyzer) learn(ctx context.Context, past *past) error {
	if err := z.configured(ctx, &past.history); err != nil {
		return err
	}
	for {
		a, err := z.next()
		if err != nil {
			return err
		}
		digest, err := z.announce(ctx, a, past)
		if err != nil {
			return err
		}
		z.machine.Announced(a, digest)
		if err := z.announced(a); err != nil {
			return err
		}
		if a.Final {
			past.resumed(z.c.Log)
			return z.ended()
		}
		if err := z.round(ctx, past, a, digest); err != nil {
			return err
		}
	}
}

// round goes from an announcement to what the learner makes of its counts.
func (z *Analyzer) round(ctx context.Context, past *past, a *plan.Announcement, digest [32]byte) (err error) {
	begin := z.c.Clock.Now()
	counts, replayed := past.history.counts[roundID{a.Epoch, a.Round}]
	if !replayed {
		past.resumed(z.c.Log)
		drawn, err := z.draw(ctx, &past.history, a, digest)
		if err != nil && !errors.Is(err, errEnded) {
			return err
		}
		if counts, err = z.count(ctx, a, digest, drawn); err != nil {
			return err
		}
		if counts, err = z.settle(ctx, &past.history, counts); err != nil {
			return err
		}
	}
	if !bytes.Equal(counts.Announcement, digest[:]) {
		return fmt.Errorf("%w: the counts of round %d of epoch %d belong to another announcement",
			ErrConfigChanged, a.Round, a.Epoch)
	}
	if err := z.counting.Forget(ctx, a.Epoch, a.Round); err != nil {
		return err
	}
	if err := z.learned(a, digest, counts); err != nil {
		return err
	}
	if replayed { // its times were measured, and its lines logged, when it was counted
		past.replayed(counts)
		return z.absorb(ctx, past, a, counts, zerolog.Nop())
	}
	z.c.Steps.Since(stepRound, begin)
	begin = z.c.Clock.Now()
	if err := z.absorb(ctx, past, a, counts, z.c.Log); err != nil {
		return err
	}
	z.c.Steps.Since(stepLearning, begin)
	return nil
}

// absorb gives a round's counts to the machine, and states what it learned.
func (z *Analyzer) absorb(
	ctx context.Context, past *past, a *plan.Announcement, counts *wire.Counts, log zerolog.Logger,
) error {
	_, digest, err := wire.Sign(counts, z.c.Identity)
	if err != nil {
		return fmt.Errorf("analyzer: %w", err)
	}
	learned, err := z.machine.Absorb(counts, digest)
	if err != nil {
		return fmt.Errorf("analyzer: %w", err)
	}
	if err := z.concluded(ctx, &past.history, learned); err != nil {
		return err
	}
	stats := ReleaseStats{Epoch: a.Epoch, Round: a.Round, Reports: counts.Reports, Destroyed: counts.Destroyed}
	if counts.Destroyed {
		if err := z.lost(ctx, a, counts, &stats); err != nil {
			return err
		}
		warned := log.Warn().Str(outcome.Field, string(Destroyed)).Uint64("epoch", a.Epoch).Uint32("round", a.Round).
			Uint32("reports", counts.Reports)
		if stats.Refused {
			warned.Msg("the cohort was refused; its policy stays for the next one. What left the shuffler is spent all the same")
		} else {
			warned.Msg("the cohort was destroyed; its policy stays for the next one")
		}
	} else {
		stats.Messages, stats.Epsilon = a.ReportMessages(), learned.Epsilon
		stats.Influence, stats.Moved = a.StateInfluence(counts.Reports)
		log.Info().Uint64("epoch", a.Epoch).Uint32("round", a.Round).Uint32("reports", counts.Reports).
			Float64("epsilon", stats.Epsilon).Msg("round absorbed")
		if learned.Action != "" {
			log.Warn().Uint64("epoch", a.Epoch).Str("action", learned.Action).
				Msg("a rule took the policy back: the upper end of the lift's interval is below its floor")
		}
	}
	estimate, err := z.machine.Estimate()
	if err != nil {
		return fmt.Errorf("analyzer: %w", err)
	}
	planned, wrong := len(z.machine.Schedule()), z.machine.WrongShare()
	z.note(func(p *Progress) {
		p.WrongShare = wrong
		if stats.Influence != nil {
			for i := range p.Releases {
				p.Releases[i].Influence = nil
			}
		}
		p.Releases, p.Epochs = append(p.Releases, stats), planned
		if !counts.Destroyed && int(a.Round) == len(a.Plan.Rounds)-1 {
			p.Learned = append(p.Learned, Learned{
				Epoch: a.Epoch, Epsilon: stats.Epsilon, Estimate: estimate, Lift: learned.Lift, Total: learned.Total,
				Unchanged: learned.Unchanged, Action: learned.Action,
			})
			if learned.Action != "" {
				p.Action, p.Acted = learned.Action, a.Epoch
			}
			p.Learned = p.Learned[max(0, len(p.Learned)-trend):]
		}
	})
	return nil
}

// learned tells a channel whose curator needs the records of earlier rounds that a round stands in the audit log.
func (z *Analyzer) learned(a *plan.Announcement, digest [32]byte, counts *wire.Counts) error {
	c, ok := z.counting.(*envelope.Curating)
	if !ok || counts.Destroyed {
		return nil
	}
	if len(counts.Releases) != 1 {
		return fmt.Errorf("analyzer: epoch %d: counts of %d releases of records", a.Epoch, len(counts.Releases))
	}
	key, err := z.key(a.AnalyzerKey)
	if err != nil {
		key = nil // missed only if the run goes on
	}
	c.Learned(&channel.Round{Announcement: a, Digest: digest, Key: key}, counts)
	return nil
}

// ended destroys what is kept of records, since the last policy is out.
func (z *Analyzer) ended() error {
	c, ok := z.counting.(*envelope.Curating)
	if !ok {
		return nil
	}
	if err := c.End(); err != nil {
		return fmt.Errorf("analyzer: destroying sealed records: %w", err)
	}
	return nil
}

func (z *Analyzer) note(f func(*Progress)) {
	z.mu.Lock()
	defer z.mu.Unlock()
	f(&z.progress)
}
