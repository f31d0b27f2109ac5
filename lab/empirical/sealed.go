package empirical

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/registry"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// sealed plays runs with all that travels: signed announcements, records, sealed reports, and both servers' pure sides
// of the channel. Keys are drawn from the system's generator.
type sealed struct {
	g         *game
	core      *device.Core
	announced *device.Announced
	shuffler  *seal.Identity
	opens     *seal.HPKEKey // the shuffler's key, to which reports are sealed
	registrar wire.Party
	open      opener
}

// opener is what both servers do with the payloads of a round, in order, before noise of the analyzer of Central: the
// counts, by coordinate of all releases. The permutation draws from crypto's generator and changes no count.
type opener interface {
	counts(ctx context.Context, payloads [][]byte, server protocol.Source) ([]uint64, error)
	// commitment is what the shuffler's reply to an enrolment says.
	commitment() []byte
}

// compare plays runs with and without encryption, from the same random words, one world after another. Where the counts
// differ it returns ErrDiffers.
func (g *game) compare(ctx context.Context, runs int) error {
	if runs == 0 {
		return nil
	}
	s, err := newSealed(g)
	if err != nil {
		return fmt.Errorf("empirical epsilon: %w", err)
	}
	for n := range runs {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		world := n % worlds
		want := make([]uint64, g.coordinates())
		for _, err := range []error{
			g.mechanism.addCanary(want, g.vectors[world], g.source("sealed canary", uint64(n))),
			g.mechanism.addOthers(want, g.source("sealed others", uint64(n))),
			g.mechanism.addServers(want, g.source("sealed servers", uint64(n))),
		} {
			if err != nil {
				return fmt.Errorf("empirical epsilon: %w", err)
			}
		}
		got, err := s.run(ctx, g.records[world], uint64(n))
		if err != nil {
			return fmt.Errorf("empirical epsilon: a sealed run: %w", err)
		}
		if !slices.Equal(got, want) { // the counts are of invented records, but no error shows counts
			return fmt.Errorf("%w: in run %d, channel %s", ErrDiffers, n, g.o.Channel)
		}
	}
	return nil
}

func newSealed(g *game) (*sealed, error) {
	var ids [4]*seal.Identity
	for i := range ids {
		var err error
		if ids[i], err = seal.GenerateIdentity(); err != nil {
			return nil, err
		}
	}
	analyzer, shuffler, registrar, host := ids[0], ids[1], ids[2], ids[3]
	s := &sealed{g: g, shuffler: shuffler, registrar: wire.Party{Deployment: deployment, Key: registrar.Public()}}
	var err error
	if s.opens, err = seal.GenerateHPKE(); err != nil {
		return nil, err
	}
	credential, _, err := wire.Sign(&wire.Credential{
		Deployment: deployment, HostKey: host.Public(), Devices: g.announce.Cohort.Size,
	}, registrar)
	if err != nil {
		return nil, err
	}
	limits := device.DefaultLimits()
	limits.Trust, limits.Epsilon, limits.Delta = []plan.Channel{g.o.Channel}, g.o.Epsilon, g.o.Delta
	limits.MinCohort, limits.MaxMessages = int(g.announce.Cohort.Minimum), plan.MaxReportMessages
	s.core, err = device.New(device.Config{Deployment: deployment, Analyzer: analyzer.Public(),
		Shuffler: shuffler.Public(), Identity: host, Credential: credential, Limits: limits})
	if err != nil {
		return nil, err
	}
	signed, _, err := wire.Sign(g.announce, analyzer)
	if err != nil {
		return nil, err
	}
	if s.announced, err = s.core.Judge(signed, g.announce.Epoch, g.announce.Round); err != nil {
		return nil, err
	}
	if err := s.announced.Weak(); err != nil {
		return nil, err
	}
	s.open, err = s.newOpener()
	return s, err
}

// run plays one run in which the canary holds the record.
func (s *sealed) run(ctx context.Context, record statistic.Record, number uint64) ([]uint64, error) {
	canary, others := s.g.source("sealed canary", number), s.g.source("sealed others", number)
	var payloads [][]byte
	for i := range s.g.reports() {
		from, holds := protocol.Source(others), statistic.Record{Null: true}
		if i == 0 {
			from, holds = canary, record
		}
		payload, err := s.report(uint32(i), holds, from)
		if err != nil {
			return nil, err
		}
		payloads = append(payloads, payload)
	}
	return s.open.counts(ctx, payloads, s.g.source("sealed servers", number))
}

// report is the payload that the shuffler finds in the report of a device which holds a record.
func (s *sealed) report(number uint32, holds statistic.Record, src protocol.Source) ([]byte, error) {
	now := time.Unix(0, 0) // enrolment and reward come at once: nothing here waits
	state, err := s.core.NewState(number).Ask(s.announced, now)
	if err != nil {
		return nil, err
	}
	state, err = state.Promise(s.announced, &wire.EnrolReply{
		Enrolled: true, Slot: number, ReportAfter: s.announced.Timing.RewardWindow, Commitment: s.open.commitment(),
	}, now)
	if err != nil {
		return nil, err
	}
	r := state.Begin(s.announced)
	if !holds.Null {
		n, kept := r.Remember(holds.Arm, glm.Decision{Weight: holds.Weight, Control: holds.Control})
		if !kept {
			return nil, errors.New("the device does not keep the canary's record")
		}
		if _, err := r.Reward(n, holds.Reward, now); err != nil {
			return nil, err
		}
	}
	envelope, _, err := s.core.Report(state, r, s.announced, s.opens.Public(), src)
	if err != nil {
		return nil, err
	}
	keys, err := seal.NewReportOpener(s.opens)
	if err != nil {
		return nil, err
	}
	plain, err := wire.OpenEnvelope(envelope, keys, seal.ReportContext{
		Deployment: deployment, Epoch: s.announced.Epoch, Round: s.announced.Round,
	})
	if err != nil {
		return nil, err
	}
	report, _, err := wire.ParseReport(plain, registry.PayloadSize(s.g.o.Channel, s.announced.Encodings))
	if err != nil {
		return nil, err
	}
	return report.Payload, nil
}

// newOpener makes the servers' side of the channel.
func (s *sealed) newOpener() (opener, error) {
	a, digest := s.announced.Announcement, s.announced.Digest
	switch s.g.o.Channel {
	case plan.Shuffle:
		return &openBits{a, digest, s.g.analyzer}, nil
	case plan.Shares:
		return newOpenShares(a, digest, s.g.analyzer, s.shuffler, channel.NewVerifier(s.registrar))
	}
	return newOpenEnvelopes(a, digest, s.g, channel.NewVerifier(s.registrar))
}
