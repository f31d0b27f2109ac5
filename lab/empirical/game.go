package empirical

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// pilotRuns find where the scores lie: a fault moves their mean far from the plan's.
const pilotRuns = 400

// game is one plan with its worlds and attacks, ready to be played.
type game struct {
	arena
	announce *plan.Announcement
	analyzer *seal.HPKEKey
	view     view
	claimed  float64
	reach    float64

	records   [worlds]statistic.Record
	vectors   [worlds][][]float64
	mechanism *mechanism
	weights   [rivals][]float64 // of counts in an attack's score, whose deviation is 1 under the plan's noise
	centre    [rivals]float64   // of the scores
}

func newGame(o Options) (*game, error) {
	g := &game{}
	g.arena = arena{o: o, enter: func() player { return g.player() }}
	var err error
	if g.analyzer, err = seal.GenerateHPKE(); err != nil {
		return nil, fmt.Errorf("empirical epsilon: %w", err)
	}
	if g.announce, err = announce(o, g.analyzer); err != nil {
		return nil, err
	}
	guarantee, err := plan.Guarantee(g.announce, 0)
	if err != nil {
		return nil, fmt.Errorf("empirical epsilon: %w", err)
	}
	g.claimed = guarantee.Epsilon(o.Delta)
	round, err := plan.CheckRound(g.announce)
	if err != nil {
		return nil, fmt.Errorf("empirical epsilon: %w", err)
	}
	g.view = viewOf(g.announce)
	if o.Fault == Copies && o.Copied >= g.view.reports {
		return nil, fmt.Errorf("%w: copied is %d, want fewer than the %d reports", ErrOptions, o.Copied, g.view.reports)
	}
	if err := g.invent(round); err != nil {
		return nil, err
	}
	g.mechanism = newMechanism(o, g.view, g.announce.Encodings, g.vectors[1+null])
	g.aim()
	return g, g.pilot()
}

// invent finds the canary's records.
func (g *game) invent(round *plan.Encoder) error {
	weights := make([]float64, len(round.Encodings))
	for i, e := range round.Encodings {
		weights[i] = e.Scale * e.Scale / g.view.noise(g.announce, i)
	}
	least, most := family.RewardRange(g.announce.Policy.Family, g.announce.Policy.MaxReward)
	far, err := farthest(round, weights, least, most)
	if err != nil {
		return err
	}
	square, err := maxSquare(round, weights)
	if err != nil {
		return err
	}
	g.reach = math.Sqrt(far.square / square)
	g.records = [worlds]statistic.Record{far.records[0], 1 + opposite: far.records[1], 1 + null: {Null: true}}
	for i, r := range g.records {
		if g.vectors[i], err = vectors(round, r); err != nil {
			return err
		}
	}
	return nil
}

// maxSquare is the largest weighted squared distance that the certificate allows for: of the pair of releases that it
// counts together, and of each other one at its own diameter.
func maxSquare(round *plan.Encoder, weights []float64) (square float64, err error) {
	spread, err := statistic.JointSpread(round.Statistics[0], round.Statistics[1])
	if err != nil {
		return 0, fmt.Errorf("empirical epsilon: %w", err)
	}
	square = spread(weights[:2])
	for i, s := range round.Statistics[2:] {
		b, err := s.Bounds()
		if err != nil {
			return 0, fmt.Errorf("empirical epsilon: %w", err)
		}
		square += weights[i+2] * b.Diameter * b.Diameter
	}
	return square, nil
}

// aim makes the scores: the counts projected on the line between two worlds, each coordinate weighted by its part of
// the distance over its variance. Rounding counts as if each report had the most of it, a quarter of a level squared.
func (g *game) aim() {
	for rival := range rivals {
		var square float64
		for i, e := range g.announce.Encodings {
			variance := g.view.noise(g.announce, i) + float64(g.view.reports)/4
			for j := range e.Coordinates {
				gap := (g.vectors[0][i][j] - g.vectors[1+rival][i][j]) * e.Scale
				g.weights[rival] = append(g.weights[rival], gap/variance)
				square += gap * gap / variance
			}
		}
		for j := range g.weights[rival] {
			g.weights[rival][j] /= math.Sqrt(square)
		}
	}
}

// pilot puts the centre of the scores between the worlds. Its runs count for nothing else.
func (g *game) pilot() error {
	src := g.source("pilot", 0)
	p := g.player()
	var sums [rivals]float64
	for range pilotRuns {
		if err := p.run(src); err != nil {
			return err
		}
		for rival := range rivals {
			sums[rival] += p.score(0, rival) + p.score(1+rival, rival)
		}
	}
	for rival, sum := range sums {
		g.centre[rival] = sum / (2 * pilotRuns)
	}
	return nil
}

func (g *game) coordinates() int { return g.mechanism.coordinates() }

func (g *game) reports() int { return g.view.reports }

// counter is the player of releases: what it scores are noised counts.
type counter struct {
	g      *game
	common []uint64         // counts of all that does not depend on the canary's record
	counts [worlds][]uint64 // of each world
}

func (g *game) player() *counter {
	p := &counter{g: g, common: make([]uint64, g.coordinates())}
	for w := range p.counts {
		p.counts[w] = make([]uint64, g.coordinates())
	}
	return p
}

// run draws one run of every world. The worlds share the other devices and the servers' noise, and the canary draws
// anew in each. So each world has the law that it has by itself, and the bounds need no more: they bound each rate by
// itself.
func (p *counter) run(src *rand.ChaCha8) error {
	clear(p.common)
	if err := p.g.mechanism.addOthers(p.common, src); err != nil {
		return fmt.Errorf("empirical epsilon: %w", err)
	}
	if err := p.g.mechanism.addServers(p.common, src); err != nil {
		return fmt.Errorf("empirical epsilon: %w", err)
	}
	for w := range p.counts {
		copy(p.counts[w], p.common)
		if err := p.g.mechanism.addCanary(p.counts[w], p.g.vectors[w], src); err != nil {
			return fmt.Errorf("empirical epsilon: %w", err)
		}
	}
	return nil
}

// score is that of a world's counts in the attack that tells the canary's first record from a rival.
func (p *counter) score(world, rival int) float64 {
	sum := -p.g.centre[rival]
	for j, n := range p.counts[world] {
		sum += p.g.weights[rival][j] * float64(n)
	}
	return sum
}
