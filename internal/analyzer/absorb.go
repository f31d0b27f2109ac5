package analyzer

import (
	"context"
	"fmt"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/envelope"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

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
	if err := z.logLearned(ctx, &past.history, learned); err != nil {
		return err
	}
	stats := ReleaseStats{Epoch: a.Epoch, Round: a.Round, Reports: counts.Reports, Destroyed: counts.Destroyed}
	if counts.Destroyed {
		if err := z.costOfLoss(ctx, a, counts, &stats); err != nil {
			return err
		}
		warned := log.Warn().Str(outcome.Field, string(Destroyed)).Uint64("epoch", a.Epoch).Uint32("round", a.Round).
			Uint32("reports", counts.Reports)
		if stats.Refused {
			warned.Msg("the cohort was refused; its policy stays for the next one. What left the shuffler is spent " +
				"all the same")
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
	var answer *deployment.Answer
	if a.Question != nil && !counts.Destroyed {
		if answer, err = deployment.AnswerOf(a, learned.Sums, counts.Reports); err != nil {
			return fmt.Errorf("analyzer: %w", err)
		}
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
		if answer != nil {
			p.Answers = append(p.Answers, answer)
			p.Answers = p.Answers[max(0, len(p.Answers)-trend):]
		}
		if !counts.Destroyed && a.Question == nil && int(a.Round) == len(a.Plan.Rounds)-1 {
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

// tellCurator tells a channel whose curator needs the records of earlier rounds that a round is in the audit log.
func (z *Analyzer) tellCurator(a *plan.Announcement, digest [32]byte, counts *wire.Counts) error {
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

// destroyRecords destroys what is kept of records, since the last policy is out.
func (z *Analyzer) destroyRecords() error {
	c, ok := z.counting.(*envelope.Curating)
	if !ok {
		return nil
	}
	if err := c.End(); err != nil {
		return fmt.Errorf("analyzer: destroying sealed records: %w", err)
	}
	return nil
}
