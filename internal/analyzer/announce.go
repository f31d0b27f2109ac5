package analyzer

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/plan"
	"github.com/riffle-dp/riffle/internal/wire"
	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/glm"
)

// place is one round of one epoch.
type place struct {
	epoch uint64
	round uint32
}

// past is what this analyzer announced and counted before.
type past struct {
	announced map[place][]byte // the HPKE key of each announcement
	counts    map[place]*rifflev1.Counts
	replay    replay
}

// past reads the deployment's history from the broker. Only statements with this analyzer's own signature count.
func (z *Analyzer) past(ctx context.Context) (*past, error) {
	own := wire.Party{Deployment: z.c.Deployment, Key: z.c.Identity.Public()}
	p := &past{announced: map[place][]byte{}, counts: map[place]*rifflev1.Counts{}}
	all, err := z.c.Bus.Announcements(ctx)
	if err != nil {
		return nil, err
	}
	for _, stored := range all {
		a, _, err := wire.Open[rifflev1.Announcement](stored.Payload, own)
		if err != nil {
			return nil, fmt.Errorf("%w: round %d of epoch %d: %w", ErrConfigChanged, stored.Round, stored.Epoch, err)
		}
		p.announced[place{a.Epoch, a.Round}] = a.AnalyzerKey
	}
	err = z.c.Bus.ReadAudit(ctx, bus.AuditFilter{Role: bus.Analyzer, Kind: "counts"}, func(s bus.Statement) error {
		c, _, err := wire.Open[rifflev1.Counts](s.Payload, own)
		if err != nil {
			z.c.Log.Warn().Err(err).Uint64("sequence", s.Sequence).Msg("counts of somebody else skipped")
			return nil
		}
		at := place{c.Epoch, c.Round}
		if _, ok := p.counts[at]; !ok { // a statement can stand twice; the first one was acted on
			p.counts[at] = c
		}
		return nil
	})
	return p, err
}

// drawUp writes the announcement of a step. first is the epoch's first announcement, nil at an epoch's beginning.
func (z *Analyzer) drawUp(step glm.Step, epoch uint64, first *rifflev1.Announcement, previous []byte) (*rifflev1.Announcement, error) {
	policy, err := wire.PolicyToProto(&step.Policy)
	if err != nil {
		return nil, fmt.Errorf("analyzer: %w", err)
	}
	a := &rifflev1.Announcement{Deployment: z.c.Deployment, Epoch: epoch, Round: uint32(step.Round), Previous: previous, Policy: policy, Final: step.Done}
	if step.Done {
		return a, nil
	}
	a.Timing, a.AnalyzerKey = z.c.Timing, z.c.Keys[0].Public()
	a.Reference = reference(step)
	if first == nil {
		p, err := plan.Propose(step, z.c.Terms)
		if err != nil {
			return nil, fmt.Errorf("analyzer: epoch %d: %w", epoch, err)
		}
		a.Plan, a.Cohort, a.Encodings = p.Plan, p.Cohort, p.Encodings
		g, err := plan.Guarantee(a, 0)
		if err != nil {
			return nil, fmt.Errorf("analyzer: epoch %d: %w", epoch, err)
		}
		if eps := g.Epsilon(z.c.Terms.Delta); !(eps <= z.c.Terms.Epsilon) {
			return nil, fmt.Errorf("analyzer: epoch %d: the plan gives epsilon %v, configured is %v", epoch, eps, z.c.Terms.Epsilon)
		}
		return a, nil
	}
	a.Plan, a.Cohort = first.Plan, first.Cohort
	a.Encodings, err = plan.Encode(first.Plan, step)
	return a, err
}

// reference is the public point at which the step's statistics are evaluated.
func reference(step glm.Step) []float64 {
	for _, s := range step.Statistics[step.Round] {
		if s.Kind != glm.Covariance {
			return s.Theta
		}
	}
	return make([]float64, step.Policy.Dimension)
}

// announce signs and stores an announcement. One that was stored before must be the same but for a rotated HPKE key.
func (z *Analyzer) announce(ctx context.Context, a *rifflev1.Announcement, past *past) (digest [32]byte, err error) {
	if key, ok := past.announced[place{a.Epoch, a.Round}]; ok && !a.Final {
		if _, counted := past.counts[place{a.Epoch, a.Round}]; !counted { // nothing that was sealed to the key of a counted round is opened again
			if _, err := z.key(key); err != nil {
				return digest, err
			}
		}
		a.AnalyzerKey = key
	}
	signed, digest, err := wire.Sign(a, z.c.Identity)
	if err != nil {
		return digest, fmt.Errorf("analyzer: %w", err)
	}
	err = z.c.Bus.PutAnnouncement(ctx, a.Epoch, a.Round, signed)
	if errors.Is(err, bus.ErrExists) {
		return digest, fmt.Errorf("%w (round %d of epoch %d)", ErrConfigChanged, a.Round, a.Epoch)
	}
	if err != nil {
		return digest, err
	}
	if _, ok := past.announced[place{a.Epoch, a.Round}]; !ok {
		z.c.Log.Info().Uint64("epoch", a.Epoch).Uint32("round", a.Round).Uint32("cohort", a.Cohort.GetSize()).Bool("final", a.Final).Msg("announced")
	}
	return digest, nil
}

// key finds the private key of an announced HPKE key.
func (z *Analyzer) key(public []byte) (int, error) {
	for i, k := range z.c.Keys {
		if bytes.Equal(k.Public(), public) {
			return i, nil
		}
	}
	return 0, fmt.Errorf("analyzer: the HPKE key %x that an open epoch was announced with is not configured; keep old keys until their epochs are over", public[:min(8, len(public))])
}
