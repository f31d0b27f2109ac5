package demo

import (
	"context"
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/chart"
	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/pkg/channel/registry"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// watcher reads what is public, with the auditor's rights on the broker.
type watcher struct {
	conn   *bus.Conn
	bundle keyring.Bundle
}

func watch(ctx context.Context, c *cluster.Cluster) (*watcher, error) {
	bundle, err := keyring.LoadBundle(c.Keys())
	if err != nil {
		return nil, err
	}
	seed, err := keyring.LoadSeed(c.Keys(), keyring.Auditor)
	if err != nil {
		return nil, err
	}
	conn, err := bus.Connect(ctx, bus.Options{URL: c.URL(), Role: bus.Auditor, Seed: seed, Name: "demo"})
	if err != nil {
		return nil, err
	}
	return &watcher{conn, bundle}, nil
}

func (w *watcher) close() { w.conn.Close() }

// export leaves what an audit reads.
func (w *watcher) export(ctx context.Context, folder string) error {
	live, err := audit.NewLive(ctx, audit.Over(w.conn.Streams), w.bundle)
	if err != nil {
		return err
	}
	done, err := audit.WriteFolder(ctx, folder, live, w.bundle)
	if err != nil {
		return err
	}
	for epoch, why := range done.Uncertified { // one is enough to tell
		return fmt.Errorf("epoch %d has no certificate: %s", epoch, why)
	}
	return nil
}

// released is a run's public record.
type released struct {
	final     *glm.Policy
	epochs    int
	manifests []*wire.Manifest
	announced map[[2]uint64]*plan.Announcement // key: epoch and round
}

// releases reads the whole run back from the public log.
func (w *watcher) releases(ctx context.Context) (*released, error) {
	r := &released{announced: map[[2]uint64]*plan.Announcement{}}
	all, err := w.conn.Announcements.ReadAnnouncements(ctx)
	if err != nil {
		return nil, err
	}
	for _, stored := range all {
		a, _, err := wire.OpenAnnouncement(stored.Payload, stored.Epoch, stored.Round, w.bundle.AnalyzerParty())
		if err != nil {
			return nil, err
		}
		if a.Final {
			r.final = &a.Policy
			continue
		}
		r.announced[[2]uint64{a.Epoch, uint64(a.Round)}] = a
		r.epochs = max(r.epochs, int(a.Epoch))
	}
	if r.final == nil {
		return nil, fmt.Errorf("demo: no final policy was announced")
	}
	seen := map[string]bool{}
	filter := bus.AuditFilter{Role: bus.Shuffler, Kind: "manifest"}
	err = w.conn.Audit.ReadAudit(ctx, filter, func(s bus.Statement) error {
		m, digest, err := wire.Open[wire.Manifest](s.Payload, w.bundle.ShufflerParty())
		if err != nil || seen[string(digest[:])] {
			return err
		}
		seen[string(digest[:])] = true
		r.manifests = append(r.manifests, m)
		return nil
	})
	return r, err
}

// fill puts what the public log says into the result.
func fill(result *chart.Result, r *released) {
	result.Epochs = r.epochs
	result.Cohort = math.MaxInt
	var messages, bytes, alone float64
	for _, m := range r.manifests {
		if m.Outcome != wire.Released {
			result.Lost++
			continue
		}
		if m.Round == 0 {
			result.Reports += int(m.Reports)
		}
		result.Cohort = min(result.Cohort, int(m.Reports))
		// The guarantee of the epoch's whole plan with the reports that really came.
		a := r.announced[[2]uint64{m.Epoch, uint64(m.Round)}]
		messages += float64(m.Messages - m.NoiseMessages)
		payload := registry.PayloadSize(a.Plan.Channel, a.Encodings)
		bytes += float64(m.Reports) * float64(wire.EnvelopeSize(payload))
		eps := math.Inf(1)
		if g, err := plan.GuaranteeWith(a, m.Reports); err == nil {
			eps = g.Epsilon(result.Delta)
		}
		result.Epsilon = math.Max(result.Epsilon, eps)
		eps = math.Inf(1)
		if g, err := plan.Alone(a); err == nil {
			eps = g.Epsilon(result.Delta)
		}
		alone = math.Max(alone, eps)
	}
	if alone > 0 && !math.IsInf(alone, 0) && !math.IsNaN(alone) {
		result.EpsilonAlone = &alone
	}
	if result.Cohort == math.MaxInt {
		result.Cohort = 0
	}
	result.MessagesPerUser = messages / float64(result.Users)
	result.BytesPerUser = bytes / float64(result.Users)
}
