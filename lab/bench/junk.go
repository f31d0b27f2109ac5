package bench

import (
	"context"
	"fmt"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// mixedDimension makes reports large (some 1700 messages), so that little of the shuffler's time goes into their
// envelopes.
const mixedDimension = 20

// Mixed is one release of junk through a shuffler: how fast it mixes, and in how much memory.
type Mixed struct {
	Users    int `json:"users"` // reports
	Messages int `json:"messages"`
	// Wall time, in seconds: until everyone had a slot; until all reports were admitted, the enrolment not counted;
	// from then until the manifest was at the broker.
	EnrolSeconds   float64 `json:"enrol_seconds"`
	AdmitSeconds   float64 `json:"admit_seconds"`
	ReleaseSeconds float64 `json:"release_seconds"`
	// The shuffler's processor time in these parts, in seconds, and how much of it opening and checking the reports
	// takes at least.
	EnrolCPU   float64 `json:"enrol_cpu_seconds"`
	AdmitCPU   float64 `json:"admit_cpu_seconds"`
	ReleaseCPU float64 `json:"release_cpu_seconds"`
	OpeningCPU float64 `json:"opening_cpu_seconds"`
	// PerCore is bit messages for each second of the shuffler's processor time beyond opening; PerSecond is bit
	// messages a second of wall time from the last admission to the manifest.
	PerCore       float64 `json:"messages_per_core_second"`
	PerSecond     float64 `json:"messages_per_second"`
	ResidentBytes int64   `json:"resident_bytes"` // of the shuffler, at most; 0: not known
	BrokerCPU     float64 `json:"broker_cpu_seconds"`
}

// runJunk takes cohorts of junk through a shuffler, with the default plan.
func runJunk(ctx context.Context, o Options, r *Result) error {
	for _, users := range o.Junk {
		o.Progress.Note("junk, %d people", users)
		m, s, traffic, err := o.mix(ctx, r, o.Dimensions[0], users)
		if err != nil {
			return fmt.Errorf("%d people: %w", users, err)
		}
		bounds := r.bounds(s)
		row := Row{
			Role: RoleShuffler, Channel: string(plan.Shuffle), Users: users, Dimension: s.dim, Messages: s.messages,
			Source: FromJunk, WallSeconds: m.EnrolSeconds + m.AdmitSeconds + m.ReleaseSeconds,
			ResidentBytes: m.ResidentBytes, Bound: bounds[RoleShuffler].what,
		}
		row.traffic(traffic[bus.Shuffler])
		r.Rows = append(r.Rows, row.of(m.EnrolCPU+m.AdmitCPU+m.ReleaseCPU, bounds[RoleShuffler].seconds))
		r.Mixed = append(r.Mixed, *m)
	}
	growth(r.Rows)
	return nil
}

// runMixed takes releases of junk in large reports through a shuffler.
func runMixed(ctx context.Context, o Options, r *Result) error {
	for _, messages := range o.Mixed {
		users := leastUsers
		for range 2 { // how many messages a report has depends a little on the cohort
			s, _, err := shapeOf(plan.Shuffle, mixedDimension, users)
			if err != nil {
				return err
			}
			users = max(leastUsers, (messages+s.messages-1)/s.messages)
		}
		o.Progress.Note("mixing %d messages of %d people", messages, users)
		m, _, _, err := o.mix(ctx, r, mixedDimension, users)
		if err != nil {
			return fmt.Errorf("%d messages: %w", messages, err)
		}
		r.Mixed = append(r.Mixed, *m)
	}
	return nil
}

// mix takes one cohort of junk through a shuffler of its own, and compares what leaves with what came.
func (o Options) mix(ctx context.Context, r *Result, dim, users int) (
	*Mixed, shape, map[bus.Role]broker.Traffic, error,
) {
	of, _, err := shapeOf(plan.Shuffle, dim, users)
	if err != nil {
		return nil, of, nil, err
	}
	s := &stand{Setup: o.Setup, users: users, dim: dim, channel: plan.Shuffle, junk: true}
	if s.folder, err = o.folderOf("junk"); err != nil {
		return nil, of, nil, err
	}
	defer s.stop()
	if err := s.start(ctx); err != nil {
		return nil, of, nil, err
	}
	if err := s.enrol(ctx); err != nil {
		return nil, of, nil, err
	}
	all, err := s.report(ctx)
	if err != nil {
		return nil, of, nil, err
	}
	if err := s.receive(ctx, all); err != nil {
		return nil, of, nil, err
	}
	m, b := s.marks, r.Bounds
	out := &Mixed{
		Users: users, Messages: users * s.messages(),
		EnrolSeconds: m.wall(markOpen, markEnrolled), AdmitSeconds: m.wall(markEnrolled, markAdmitted),
		ReleaseSeconds: m.wall(markAdmitted, markLeft),
		EnrolCPU:       m.cpu(cluster.Shuffler, markOpen, markEnrolled),
		AdmitCPU:       m.cpu(cluster.Shuffler, markEnrolled, markAdmitted),
		ReleaseCPU:     m.cpu(cluster.Shuffler, markAdmitted, markLeft),
		OpeningCPU: float64(users) * (b.Of(boundX25519) + b.Of(boundAEAD)*float64(of.envelope()) +
			b.Of(boundVerify)),
		ResidentBytes: m[markLeft].used[cluster.Shuffler].Peak,
		BrokerCPU:     m.cpu(cluster.Broker, markOpen, markLeft),
	}
	if beyond := out.AdmitCPU + out.ReleaseCPU - out.OpeningCPU; beyond > 0 {
		out.PerCore = float64(out.Messages) / beyond
	}
	out.PerSecond = float64(out.Messages) / out.ReleaseSeconds
	s.c.Stop()
	return out, of, s.c.Traffic(), nil
}
