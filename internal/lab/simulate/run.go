// Package simulate runs bandits in one process: Riffle with the same policies, statistics, plans, encodings and noise as its three
// roles, without transport and encryption, and every algorithm that it is compared with.
//
// A [Player] decides person by person. [Batched] is the player that a deployment is, through a [Trust]: the shuffle protocol, local or
// central noise, or none. The package's subfolders hold the environments, the other baselines, and experiments made of them.
package simulate

import (
	"context"
	"iter"

	"github.com/riffle-dp/riffle/internal/lab/population"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Outcome is what Run came to.
type Outcome struct {
	Played []int // arm of each person, in order
	Epochs int
	Final  glm.Policy // refitted with the last cohort
}

// Run decides for people in order, as many as the learner's horizon, and learns from them. People's own coins come from devices, the
// channel's noise from noise: both are sources of the simulation. progress, which may be nil, is called now and then with the people
// decided for so far.
func Run(ctx context.Context, cfg glm.Config, people iter.Seq2[population.Person, error], trust Trust, devices, noise protocol.Source, progress func(decided int)) (*Outcome, error) {
	player, err := NewBatched(cfg, trust, devices, noise)
	if err != nil {
		return nil, err
	}
	out, decided := &Outcome{}, 0
	advance := func(people int) {
		if decided += people; progress != nil {
			progress(decided)
		}
	}
	if _, err = Play(ctx, recording{player, &out.Played}, people, player.learner.Config().Horizon, nil, advance); err != nil {
		return nil, err
	}
	out.Epochs = player.Epochs()
	out.Final, err = player.FinalPolicy()
	return out, err
}

// recording notes what was played.
type recording struct {
	Player
	played *[]int
}

func (r recording) Choose(arms [][]float64) (int, error) {
	arm, err := r.Player.Choose(arms)
	*r.played = append(*r.played, arm)
	return arm, err
}
