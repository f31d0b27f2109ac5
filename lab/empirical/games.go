package empirical

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
)

// A Game is something that is released, with what its worst placed observer sees of it.
type Game string

// The games.
const (
	Sums    Game = "sums"    // of a cohort of arrivals: Hessian and gradient
	Rewards Game = "rewards" // the same with the rewards of policy and control group
	Fit     Game = "fit"     // the statistics of riffle fit
	Prior   Game = "prior"   // the statistics of riffle evaluate --write-prior --epsilon
)

// Games lists them.
func Games() []Game { return []Game{Sums, Rewards, Fit, Prior} }

// usesChannel reports whether devices and servers play the game, over a channel.
func (g Game) usesChannel() bool { return g == Sums || g == Rewards }

// opened is a game that is ready to be played.
type opened struct {
	arena
	claimed   float64 // epsilon at the delta of the options
	reach     float64
	described Result // what the game says of itself
}

// open makes the options' game.
func (o Options) open(ctx context.Context) (*opened, error) {
	switch o.Game {
	case Fit:
		return openFit(o)
	case Prior:
		return openPrior(o)
	}
	g, err := newGame(o)
	if err != nil {
		return nil, err
	}
	if err := g.compare(ctx, o.Sealed); err != nil {
		return nil, err
	}
	return &opened{arena: g.arena, claimed: g.claimed, reach: g.reach, described: Result{Channel: o.Channel,
		Coordinates: g.coordinates(), Reports: g.reports(), Sealed: o.Sealed}}, nil
}

// noised is a game whose observer sees a vector of sums to which noise was added, whatever the canary's record: the
// attack projects it on the line between the exact vectors of two worlds.
type noised struct {
	exact [worlds][]float64
	// weights are of squared distances, by coordinate: one over the variance of the promised noise.
	weights []float64
	// draw draws the vector of a world.
	draw func(world int, src *rand.ChaCha8) ([]float64, error)
}

// distance is that of a rival from the first record, in deviations of the promised noise.
func (n *noised) distance(rival int) float64 {
	square := 0.0
	for i, w := range n.weights {
		gap := n.exact[0][i] - n.exact[1+rival][i]
		square += w * gap * gap
	}
	return math.Sqrt(square)
}

func (n *noised) enter() player { return &projector{noised: n} }

// projector is the player of noised.
type projector struct {
	*noised
	seen [worlds][]float64
}

func (p *projector) run(src *rand.ChaCha8) error {
	for w := range p.seen {
		var err error
		if p.seen[w], err = p.draw(w, src); err != nil {
			return fmt.Errorf("empirical epsilon: %w", err)
		}
	}
	return nil
}

func (p *projector) score(world, rival int) float64 {
	sum := 0.0
	for i, w := range p.weights {
		a, b := p.exact[0][i], p.exact[1+rival][i]
		sum += w * (a - b) * (p.seen[world][i] - (a+b)/2)
	}
	return sum / p.distance(rival)
}
