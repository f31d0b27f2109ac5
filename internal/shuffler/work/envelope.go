package work

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Envelopes opens sealed reports, in the lead and in its workers. It is safe for concurrent use.
type Envelopes struct {
	deployment string
	opener     *seal.ReportOpener
	channels   map[plan.Channel]channel.Mixing // of which it uses Parse
}

// NewEnvelopes opens what is sealed to one of the opener's keys.
func NewEnvelopes(deployment string, o *seal.ReportOpener, channels map[plan.Channel]channel.Mixing) *Envelopes {
	return &Envelopes{deployment, o, channels}
}

// Open opens a sealed report of the round and checks all that can be checked without knowing who is enrolled.
func (e *Envelopes) Open(
	envelope []byte, epoch uint64, round uint32, l channel.Layout,
) (*wire.Report, cohort.Digest, error) {
	no := func(reason wire.Refusal, format string, a ...any) (*wire.Report, cohort.Digest, error) {
		return nil, cohort.Digest{}, cohort.Refuse(reason, format, a...)
	}
	if l == (channel.Layout{}) {
		return no(wire.RefusalWrongEpoch, "round %d of epoch %d is not open", round, epoch)
	}
	// All envelopes of a round have one size. An envelope of another size costs no more than this comparison.
	if want := wire.EnvelopeSize(l.Size()); len(envelope) != want {
		return no(wire.RefusalWrongSize, "an envelope of %d bytes, this round's have %d", len(envelope), want)
	}
	at := seal.ReportContext{Deployment: e.deployment, Epoch: epoch, Round: round}
	plain, err := wire.OpenEnvelope(envelope, e.opener, at)
	if err != nil {
		return no(wire.Reason(err), "%v", err)
	}
	report, digest, err := e.channels[l.Of()].Parse(plain, l)
	if err != nil {
		return no(wire.Reason(err), "%v", err)
	}
	if report.Epoch != epoch || report.Round != round {
		return no(wire.RefusalWrongEpoch, "a report of round %d of epoch %d in the stream of round %d of epoch %d",
			report.Round, report.Epoch, round, epoch)
	}
	return report, digest, nil
}

// Again opens the report of a release's member again, which must be the one that was admitted.
func (e *Envelopes) Again(envelope []byte, r *channel.Release, m channel.Member) (*wire.Report, error) {
	at := seal.ReportContext{Deployment: e.deployment, Epoch: r.Epoch, Round: r.Round}
	plain, err := wire.OpenEnvelope(envelope, e.opener, at)
	var report *wire.Report
	if err == nil { // it was verified and checked when it was admitted: its digest says that it is the same one
		report, err = wire.ReparseReport(plain, r.Layout.Size(), m.Digest)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: slot %d: the broker has another report in its place; "+
			"the broker's data was set back, and written anew since", channel.ErrImpossible, m.Slot)
	}
	return report, nil
}

// Missing says that the broker has a member's report no more.
func Missing(m channel.Member) error {
	return fmt.Errorf("%w: slot %d: the broker no longer has its report; "+
		"the broker's data was lost, set back, or purged by another client", channel.ErrImpossible, m.Slot)
}

// errLast ends a scan.
var errLast = errors.New("the last member is read")

// Run is the read of a run of the stream of reports.
type Run struct {
	Envelopes *Envelopes
	Stored    func(ctx context.Context, epoch uint64, round uint32, from uint64, fn func(uint64, []byte) error) error
}

// Reports reads those of members, who are ordered by their place in the stream, with as few questions to the broker as
// it takes, and opens them on all processors: it is shuffle.Mixer's Reports.
func (x *Run) Reports(
	ctx context.Context, r *channel.Release, members []channel.Member, take func(i int, payload []byte),
) error {
	type stored struct {
		i        int
		envelope []byte
	}
	found := make(chan stored)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(found)
		if len(members) == 0 {
			return nil
		}
		next := 0
		err := x.Stored(ctx, r.Epoch, r.Round, members[0].Sequence, func(sequence uint64, envelope []byte) error {
			if sequence > members[next].Sequence {
				return Missing(members[next])
			}
			if sequence < members[next].Sequence { // somebody else's
				return nil
			}
			select {
			case found <- stored{next, envelope}:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if next++; next == len(members) {
				return errLast
			}
			return nil
		})
		if errors.Is(err, errLast) {
			return nil
		}
		if err == nil {
			err = Missing(members[next])
		}
		return err
	})
	for range runtime.GOMAXPROCS(0) {
		g.Go(func() error {
			for one := range found {
				report, err := x.Envelopes.Again(one.envelope, r, members[one.i])
				if err != nil {
					return err
				}
				take(one.i, report.Payload)
			}
			return nil
		})
	}
	return g.Wait()
}
