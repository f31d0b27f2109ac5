package empirical

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/riffle-dp/riffle/pkg/learn/estimate"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// beyond is how many times the bounds of a column the canary's values in the game Fit are: they must count as the
// bounds.
const beyond = 3

// openFit is the linear regression of riffle fit, whose observer sees the noised sums: all else that it prints follows
// from them. All rows but the canary's are in the middle of the bounds. The canary holds all values at one end, or half
// of them at the other, which are as far apart as two rows can be, or the middle, too.
func openFit(o Options) (*opened, error) {
	with := estimate.Fit{Target: estimate.Range{Low: -1, High: 1}, Epsilon: o.Epsilon, Delta: o.Delta, Level: 0.95}
	for range o.Dimension {
		with.Features = append(with.Features, with.Target)
	}
	n := max(o.Cohort, 2*o.Dimension+10)
	g := new(noised)
	rows, target := make([][][]float64, len(g.exact)), make([][]float64, len(g.exact)) // by world
	for w := range rows {
		rows[w], target[w] = fitTable(w, n, o)
	}
	draw := func(f estimate.Fit, world int, src protocol.Source) (sums []float64, out estimate.Fitted, err error) {
		f.Noise, f.Released = src, func(released []float64) { sums = released }
		out, err = f.Linear(rows[world], target[world])
		return sums, out, err
	}
	exact := with
	exact.Epsilon = math.Inf(1)
	for w := range g.exact {
		var err error
		if g.exact[w], _, err = draw(exact, w, rand.NewChaCha8([32]byte{})); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrOptions, err)
		}
	}
	_, out, err := draw(with, 1+null, rand.NewChaCha8([32]byte{}))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	promised := math.Sqrt(2 * out.Guarantee.Rho) // the distance of two records that lie as far apart as allowed for
	longest := math.Sqrt2 * float64(o.Dimension+2)
	for range g.exact[0] {
		g.weights = append(g.weights, promised*promised/(longest*longest))
	}
	switch o.Fault {
	case HalfNoise:
		with.Epsilon = privacy.Guarantee{Rho: 2 * out.Guarantee.Rho}.Epsilon(o.Delta)
	case NoNoise:
		with.Epsilon = math.Inf(1)
	}
	g.draw = func(world int, src *rand.ChaCha8) ([]float64, error) {
		sums, _, err := draw(with, world, src)
		return sums, err
	}
	return &opened{arena: arena{o: o, enter: g.enter}, claimed: out.Guarantee.Epsilon(o.Delta),
		reach: g.distance(opposite) / promised, described: Result{Coordinates: len(g.weights), Reports: n}}, nil
}

// fitTable is the table of a world: the canary's row, twice where the fault says so, and rows in the middle.
func fitTable(world, n int, o Options) (rows [][]float64, target []float64) {
	rows, target = make([][]float64, n), make([]float64, n)
	for i := range rows {
		rows[i] = make([]float64, o.Dimension)
	}
	copies := 1
	if o.Fault == Twice {
		copies = 2
	}
	for i := range copies {
		rows[i], target[i] = fitCanary(world, o.Dimension)
	}
	return rows, target
}

// fitCanary is the canary's row in a world.
func fitCanary(world, features int) (row []float64, target float64) {
	row = make([]float64, features)
	if world == 1+null {
		return row, 0
	}
	for i := range row {
		row[i] = beyond
		if world == 1+opposite && i < (features+1)/2 {
			row[i] = -beyond
		}
	}
	if world == 1+opposite {
		return row, -beyond
	}
	return row, beyond
}
