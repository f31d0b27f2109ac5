// Package play runs bandit algorithms in one process. Riffle runs with the same policies, statistics, plans,
// encodings and noise as its three roles, without transport and encryption.
//
// An [Algorithm] decides person by person. [Batched] is the algorithm that a deployment runs, with a [Trust] that
// says how it gets its sums: one of the four channels as pkg/plan plans them, a yardstick of Gaussian noise, or no
// noise. The other algorithms are in package baseline, the populations in package environment, and the comparisons of
// both in package experiment. A simulation draws its noise from seeded generators, so that it can be repeated: it
// protects no one.
package play

import (
	"context"
	"iter"

	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// History is the result of Run.
type History struct {
	Played []int // arm of each person, in order
	Epochs int
	Final  glm.Policy // refitted with the last cohort
}

// Run decides for people in order, as many as the learner's horizon, and learns from them. Both sources are the
// simulation's: people's own coins come from devices, the channel's noise from noise. progress, which may be nil, is
// called now and then with the number of people decided for so far.
func Run(ctx context.Context, cfg learner.Config, people iter.Seq2[population.Person, error], trust Trust,
	devices, noise protocol.Source, progress func(decided int),
) (*History, error) {
	batched, err := NewBatched(cfg, trust, devices, noise)
	if err != nil {
		return nil, err
	}
	h, decided := &History{}, 0
	advance := func(people int) {
		if decided += people; progress != nil {
			progress(decided)
		}
	}
	horizon := batched.learner.Config().Horizon
	if _, err = Play(ctx, recording{batched, &h.Played}, people, horizon, nil, advance); err != nil {
		return nil, err
	}
	h.Epochs = batched.epochs
	h.Final, err = batched.FinalPolicy()
	return h, err
}

// recording notes what its algorithm plays.
type recording struct {
	Preparer
	played *[]int
}

func (r recording) Choose(arms [][]float64) (int, error) {
	arm, err := r.Preparer.Choose(arms)
	*r.played = append(*r.played, arm)
	return arm, err
}
