// Package registry describes a deployment to other programs and to registries: as a record in the vocabulary of the
// Differential Privacy Deployments Registry, and as a privacy-loss distribution for dp_accounting. Everything in them
// comes from what the servers signed. What no statement says, such as who the curator is, is left to fill in.
package registry

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// ErrNothing means a log that does not say what a deployment promises.
var ErrNothing = errors.New("the analyzer's log has no configuration, or no announced plan: there is nothing to " +
	"describe")

// Facts is what the signed statements say of a whole deployment.
type Facts struct {
	wire.Configuration
	Releases int      // rounds that left the shuffler, or of which a part may have left
	Reports  uint64   // in them, of first rounds: people
	Versions []string // of the analyzer's program
	// Guarantees of the plans, each once: a person takes part in one. They are recomputed. Of panels each is over all
	// epochs that one person may report in.
	Guarantees []privacy.Guarantee
	Panel      *plan.Plan // whose cohort is drawn from registered devices; nil of others
	// Epsilon is the largest at the delta of the terms, Alone the same if no other device is honest; +Inf: unbounded.
	Epsilon, Alone float64
	Finished       bool // the last policy is announced

	alone []privacy.Guarantee // like Guarantees
}

// Gather reads a deployment's logs. What the roles did not sign is passed over.
//
// Errors: ErrNothing, the source's, and plans that do not hold together.
func Gather(ctx context.Context, src audit.Source, keys keyring.Bundle) (*Facts, error) {
	f := &Facts{}
	err := src.Log(ctx, bus.Analyzer, func(e audit.Entry) error {
		switch e.Kind {
		case wire.KindConfiguration:
			if c, _, err := wire.Open[wire.Configuration](e.Signed, keys.AnalyzerParty()); err == nil &&
				f.Deployment == "" {
				f.Configuration = *c
			}
		case wire.KindAnnouncement:
			if a, _, err := wire.Open[plan.Announcement](e.Signed, keys.AnalyzerParty()); err == nil {
				if f.Finished = a.Final; !a.Final && a.Round == 0 {
					return f.add(a)
				}
			}
		case wire.KindLearned:
			if l, _, err := wire.Open[wire.Learned](e.Signed, keys.AnalyzerParty()); err == nil &&
				!slices.Contains(f.Versions, l.Version) {
				f.Versions = append(f.Versions, l.Version)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if f.Deployment == "" || len(f.Guarantees) == 0 {
		return nil, ErrNothing
	}
	f.Epsilon, f.Alone = f.worst(f.Guarantees), f.worst(f.alone)
	return f, src.Log(ctx, bus.Shuffler, func(e audit.Entry) error {
		m, _, err := wire.Open[wire.Manifest](e.Signed, keys.ShufflerParty())
		if err != nil || !(deployment.Signed{Manifest: m}).Left() {
			return nil
		}
		if f.Releases++; m.Round == 0 {
			f.Reports += uint64(m.Reports)
		}
		return nil
	})
}

// add takes in what a plan gives.
func (f *Facts) add(a *plan.Announcement) error {
	g, alone, err := plan.Lifetime(a)
	if err != nil {
		return err
	}
	if a.Plan.Panel != nil && f.Panel == nil {
		p := a.Plan.Clone()
		f.Panel = &p
	}
	for _, x := range []struct {
		g    privacy.Guarantee
		into *[]privacy.Guarantee
	}{{g, &f.Guarantees}, {alone, &f.alone}} {
		if !slices.Contains(*x.into, x.g) {
			*x.into = append(*x.into, x.g)
		}
	}
	return nil
}

// worst is the largest epsilon of guarantees.
func (f *Facts) worst(gs []privacy.Guarantee) (epsilon float64) {
	for _, g := range gs {
		epsilon = math.Max(epsilon, g.Epsilon(f.Terms.Delta))
	}
	return epsilon
}
