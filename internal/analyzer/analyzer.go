// Package analyzer is the role that learns: it announces policies and plans, opens bit messages, counts ones, removes the bias and
// announces the next policy.
//
// All its state is a function of its configuration and of released counts, which it signs and appends to the audit log before it
// goes on. After a crash it replays them and stands where it stood; its announcements come out byte for byte as before, and the
// broker holds it to that.
//
// It sees per-coordinate counts of ones and numbers of reports, nothing else.
package analyzer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Config is what an analyzer needs.
type Config struct {
	Deployment string
	Identity   *seal.Identity  // signs announcements and counts
	Keys       []*seal.HPKEKey // for bit messages, newest first; older ones open what is in flight
	Shuffler   []byte          // Ed25519 public key that manifests must be signed with
	Learner    glm.Config
	Terms      plan.Terms
	Timing     plan.Timing
	Bus        *bus.Conn
	Log        zerolog.Logger
	Messages   *outcome.Outcomes // account of bit messages; made with Reasons
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
var ErrConfigChanged = errors.New("analyzer: what was announced before does not follow from this configuration; start a new deployment, or restore the old configuration")

// Analyzer is the running role.
type Analyzer struct {
	c       Config
	learner *glm.Learner
	largest int                      // bit messages of the largest report that is planned
	crash   func(after string) error // of tests

	mu       sync.Mutex
	progress Progress
	counter  *counter // nil before Run
}

// Progress is what an onlooker may know of a run. All of it is public.
type Progress struct {
	Epoch    uint64         // announced last
	Round    uint32         //
	Epochs   int            // cohorts that the schedule plans
	Final    bool           // the last policy is out
	Policy   glm.Policy     // in force
	Releases []ReleaseStats // counted so far, oldest first
	// Of the epoch's cohort; zero once the last policy is out.
	Size, Minimum uint32
	Rounds        int
	Messages      int     // bit messages of one report in the round
	Epsilon       float64 // the largest that a plan so far promises its people
}

// ReleaseStats is one counted round.
type ReleaseStats struct {
	Epoch     uint64
	Round     uint32
	Reports   uint32
	Messages  int     // per report
	Epsilon   float64 // of the epoch's whole plan, for the reports that really came
	Destroyed bool
}

// New checks the configuration as a whole: the learner's, and that a plan can be made for every cohort of the schedule.
func New(c Config) (*Analyzer, error) {
	if len(c.Keys) == 0 {
		return nil, fmt.Errorf("analyzer: no HPKE key")
	}
	learner, largest, err := feasible(c.Learner, c.Terms)
	if err != nil {
		return nil, err
	}
	return &Analyzer{c: c, learner: learner, largest: largest, progress: Progress{Epochs: len(learner.Schedule())}}, nil
}

// Progress describes the run so far.
func (z *Analyzer) Progress() Progress {
	z.mu.Lock()
	defer z.mu.Unlock()
	p := z.progress
	p.Releases = append([]ReleaseStats(nil), p.Releases...)
	return p
}

// Run announces, counts and learns until the context ends. After the last policy it only keeps running.
func (z *Analyzer) Run(ctx context.Context) error {
	past, err := z.past(ctx)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	counter := newCounter(z.c)
	z.mu.Lock()
	z.counter = counter
	z.mu.Unlock()
	done := make(chan error, 1)
	go func() {
		err := counter.receive(ctx)
		stop(err)
		done <- err
	}()
	err = z.learn(ctx, past, counter)
	if err == nil {
		<-ctx.Done()
	}
	stop(err)
	received := <-done
	if err == nil || errors.Is(err, context.Canceled) {
		err = received
	}
	return err
}

// learn is the loop from the first announcement to the last.
func (z *Analyzer) learn(ctx context.Context, past *past, counter *counter) error {
	var previous []byte
	var current *plan.Announcement // the epoch's first announcement
	for epoch := uint64(1); ; {
		step := z.learner.Next()
		a, err := z.drawUp(step, epoch, current, previous)
		if err != nil {
			return err
		}
		digest, err := z.announce(ctx, a, past)
		if err != nil {
			return err
		}
		previous = digest[:]
		if err := z.announced(a, step); err != nil {
			return err
		}
		if err := z.passed(pastAnnouncing); err != nil {
			return err
		}
		if step.Done {
			past.resumed(z.c.Log)
			return nil
		}
		if step.Round == 0 {
			current = a
		}
		begin := time.Now()
		counts, replayed := past.counts[place{epoch, uint32(step.Round)}]
		if !replayed {
			past.resumed(z.c.Log)
			if counts, err = counter.count(ctx, a, digest); err != nil {
				return err
			}
			if err := z.passed(pastCounting); err != nil {
				return err
			}
			if counts, err = z.settle(ctx, counts); err != nil {
				return err
			}
		}
		if err := z.passed(pastSigning); err != nil {
			return err
		}
		if !bytes.Equal(counts.Announcement, digest[:]) {
			return fmt.Errorf("%w: the counts of round %d of epoch %d belong to another announcement", ErrConfigChanged, step.Round, epoch)
		}
		if err := z.c.Bus.PurgeMixed(ctx, epoch, uint32(step.Round)); err != nil {
			return err
		}
		if err := z.passed(pastPurging); err != nil {
			return err
		}
		if replayed { // its times were measured when they passed
			past.replayed(counts)
			if err := z.absorb(a, counts, step, z.c.Log.Level(zerolog.Disabled)); err != nil {
				return err
			}
		} else {
			z.c.Steps.Since(stepRound, begin)
			begin = time.Now()
			if err := z.absorb(a, counts, step, z.c.Log); err != nil {
				return err
			}
			z.c.Steps.Since(stepLearning, begin)
		}
		if z.learner.Next().Round == 0 {
			epoch, current = epoch+1, nil
		}
	}
}

// settle appends a round's counts to the audit log and returns those that stand there. Where the broker's data was set back and brought
// forward again, the log has this round's counts already, and its chunks are gone with them: what was signed first stays, and is acted on.
func (z *Analyzer) settle(ctx context.Context, counts *wire.Counts) (*wire.Counts, error) {
	logged, err := z.counted(ctx)
	if err != nil {
		return nil, err
	}
	if first := logged[place{counts.Epoch, counts.Round}]; first != nil {
		z.c.Log.Warn().Uint64("epoch", counts.Epoch).Uint32("round", counts.Round).
			Msg("this round's counts are in the audit log already and stay: the broker's data was set back, and brought forward again")
		return first, nil
	}
	signed, _, err := wire.Sign(counts, z.c.Identity)
	if err != nil {
		return nil, fmt.Errorf("analyzer: %w", err)
	}
	return counts, z.c.Bus.AppendAudit(ctx, "counts", signed)
}

// What a crash may follow.
const (
	pastAnnouncing = "announcing"
	pastCounting   = "counting"
	pastSigning    = "signing"
	pastPurging    = "purging"
)

// passed is where tests crash the analyzer.
func (z *Analyzer) passed(step string) error {
	if z.crash == nil {
		return nil
	}
	return z.crash(step)
}

// absorb gives a round's counts to the learner, and says so in the log.
func (z *Analyzer) absorb(a *plan.Announcement, counts *wire.Counts, step glm.Step, log zerolog.Logger) error {
	stats := ReleaseStats{Epoch: a.Epoch, Round: a.Round, Reports: counts.Reports, Destroyed: counts.Destroyed}
	defer func() { z.note(func(p *Progress) { p.Releases = append(p.Releases, stats) }) }()
	if counts.Destroyed {
		log.Warn().Str(outcome.Field, string(Destroyed)).Uint64("epoch", a.Epoch).Uint32("round", a.Round).Uint32("reports", counts.Reports).Msg("the cohort was destroyed; its policy stays for the next one")
		return z.learner.Destroyed()
	}
	stats.Epsilon = math.Inf(1) // as long as nothing bounds it
	if g, err := plan.GuaranteeWith(a, counts.Reports); err == nil {
		stats.Epsilon = g.Epsilon(z.c.Terms.Delta)
	}
	if len(counts.Releases) != len(a.Encodings) {
		return fmt.Errorf("analyzer: round %d of epoch %d has %d releases and counts of %d", a.Round, a.Epoch, len(a.Encodings), len(counts.Releases))
	}
	var sums []glm.Aggregate
	for i, e := range a.Encodings {
		sum, err := e.Decode(counts.Releases[i].Ones, uint64(counts.Reports))
		if err != nil {
			return fmt.Errorf("analyzer: release %d of round %d, epoch %d: %w", i, a.Round, a.Epoch, err)
		}
		sums = append(sums, glm.Aggregate{
			Kind: step.Statistics[step.Round][i].Kind, Sum: sum, Variance: e.Variance(uint64(counts.Reports)), Reports: int(counts.Reports),
		})
		stats.Messages += e.Messages()
	}
	if err := z.learner.Absorb(sums); err != nil {
		return fmt.Errorf("analyzer: round %d of epoch %d: %w", a.Round, a.Epoch, err)
	}
	log.Info().Uint64("epoch", a.Epoch).Uint32("round", a.Round).Uint32("reports", counts.Reports).Float64("epsilon", stats.Epsilon).Msg("round absorbed")
	return nil
}

func (z *Analyzer) note(f func(*Progress)) {
	z.mu.Lock()
	defer z.mu.Unlock()
	f(&z.progress)
}
