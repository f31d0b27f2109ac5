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
// audit log, after the shuffler's pool is there. The contribution follows from its identity and from what was
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
	"sync"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/translog"
	"github.com/riffle-dp/riffle/internal/worker"
	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Config is what an analyzer needs.
type Config struct {
	Deployment   string
	Identity     *seal.Identity  // signs announcements and counts
	Keys         []*seal.HPKEKey // for messages of devices, newest first; older ones open what is on its way
	Shuffler     []byte          // Ed25519 public key that manifests must be signed with
	Learner      learner.Config
	Anytime      bool // go on after Learner.Horizon people, without a last policy
	Batch        int  // people of a cohort in the profile joint, a leaf of its trees; 0: the default
	Terms        plan.Terms
	Timing       plan.Timing
	Rules        plan.Rules
	Schema       []byte // canonical, of features; empty: none
	Bus          Broker
	LogPath      string           // file that keeps the transparency log; empty: the audit log alone keeps it
	LogJournal   translog.Journal // keeps it in place of a file; may be nil
	Version      string           // of this program, as statements name it
	Disk         channel.Disk     // for the channel; belongs to one process; nil: none, which shares and central refuse
	Pool         worker.Pool      // does what WorkerHandlers can; nil: this process alone, without tasks
	Memory       int64            // bytes that counting may take, beside what grows with people; 0: DefaultMemory
	Scratch      string           // for what does not fit into it; belongs to one process; empty: a temporary folder
	Source       protocol.Source  // of the analyzer's noise: a CSPRNG; nil: the system's
	Registrar    []byte           // Ed25519 public key that credentials of hosts must be signed with
	Hosts        *wire.Hosts      // whose keys were replaced or withdrawn; nil: none
	Questions    Questions        // that wait to be asked; nil: none
	MaxReport    int              // bytes of the largest report that the broker stores; 0: not checked
	SponsorShare float64          // largest share of a cohort that one sponsor's devices may be; 0: 1, all of it
	Clock        role.Clock       // nil: the system's
	Log          zerolog.Logger
	Messages     *outcome.Outcomes // account of the channel's messages, made with Reasons
	Steps        *role.Steps       // made with Steps; may be nil
	// Notice hears of a condition of readiness that is met (nil) or not, by name. May be nil.
	Notice func(condition string, err error)
}

// manifestCondition is the readiness condition that a published manifest is in the audit log.
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
	published chan struct{}   // holds a token after a manifest arrived
	few       bool            // the pool under way is too small, and that was said
	refused   map[string]bool // questions that cannot be asked, of which that was said
	manifests manifests       // that the audit log showed

	mu       sync.Mutex
	progress Progress
	counting channel.Counting // nil before Run
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
		c: c, machine: machine, published: make(chan struct{}, 1), refused: map[string]bool{},
		progress: Progress{Epochs: len(machine.Schedule())},
	}, nil
}

// configuration is the public part, from which with the counts all announcements follow.
func (c Config) configuration() wire.Configuration {
	return wire.Configuration{
		Deployment: c.Deployment, Learner: c.Learner, Anytime: c.Anytime, Batch: c.Batch, Terms: c.Terms,
		Timing: c.Timing, Schema: c.Schema, Rules: c.Rules,
	}
}

// Run announces, counts and learns until the context ends. After the last policy it only keeps running.
func (z *Analyzer) Run(ctx context.Context) (err error) {
	log, err := translog.Open(ctx, translog.Config{
		Deployment: z.c.Deployment, Role: bus.Analyzer, Identity: z.c.Identity, Broker: z.c.Bus, Path: z.c.LogPath,
		Journal: z.c.LogJournal, Log: z.c.Log,
	})
	if err != nil {
		return fmt.Errorf("analyzer: %w", notLogged("all that was said before", err))
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	z.bus = logged{z.c.Bus, log}
	past, err := z.readPast(ctx)
	if err != nil {
		return err
	}
	if err := z.c.awaitProvision(ctx); err != nil {
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
	if err := z.logConfiguration(ctx, &past.history); err != nil {
		return err
	}
	for {
		a, err := z.next(ctx, past)
		if err != nil {
			return err
		}
		digest, err := z.announce(ctx, a, past)
		if err != nil {
			return err
		}
		z.machine.Announced(a, digest)
		if err := z.noteAnnouncement(a); err != nil {
			return err
		}
		if a.Final {
			past.endReplay(z.c.Log)
			return z.destroyRecords()
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
		past.endReplay(z.c.Log)
		drawn, err := z.draw(ctx, &past.history, a, digest)
		if err != nil && !errors.Is(err, errEnded) {
			return err
		}
		if counts, err = z.count(ctx, a, digest, drawn); err != nil {
			return err
		}
		if counts, err = z.logCounts(ctx, &past.history, counts); err != nil {
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
	if err := z.tellCurator(a, digest, counts); err != nil {
		return err
	}
	if replayed { // its times were measured, and its lines logged, when it was counted
		past.noteReplay(counts)
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
