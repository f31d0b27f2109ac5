package joint

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

// State is everything public after some micro-batches: a function of the configuration and the releases. Its JSON form
// is exact.
type State struct {
	Leaves           int   `json:"leaves"` // micro-batches released
	NodesV           Nodes `json:"nodes_v"`
	NodesH           Nodes `json:"nodes_h"`
	V                symmetric.Packed
	H                symmetric.Packed
	AnchorV, AnchorH symmetric.Packed // V_o and H_tau, the matrices at the last call of each kind
	First, Second    []float64        // theta_o and theta_tau
	ExploreCalls     int              // n_1
	SwitchCalls      int              // n_2
}

// Begin is the state before anyone: both matrices lambda I, both estimates 0.
func (c Config) Begin() State {
	d := c.Dimension
	v, h := scaledIdentity(d, c.LambdaV), scaledIdentity(d, c.LambdaH)
	return State{V: v, H: h, AnchorV: v, AnchorH: h, First: make([]float64, d), Second: make([]float64, d)}
}

// Apply is the state after one more release. It changes neither argument. Errors wrap ErrRelease: it refuses a release
// of the wrong size, estimates outside the ball, and new estimates when no call was due (except in Literal).
func (c Config) Apply(s State, r Release) (State, error) {
	next, first, second, err := c.advance(s, r.V, r.H)
	if err != nil {
		return s, err
	}
	if len(r.First) != c.Dimension || len(r.Second) != c.Dimension {
		return s, fmt.Errorf("%w: estimates of %d and %d numbers, want %d", ErrRelease, len(r.First), len(r.Second),
			c.Dimension)
	}
	estimates := [][]float64{fromGrid(r.First, estimateGrid), fromGrid(r.Second, estimateGrid)}
	for i, due := range []bool{first, second} {
		if size := convex.Norm(estimates[i]); !(size <= c.Radius) && c.Variant != Literal {
			return s, fmt.Errorf("%w: an estimate of norm %v, above %v", ErrRelease, size, c.Radius)
		}
		old := [][]float64{s.First, s.Second}[i]
		if !due && !slices.Equal(old, estimates[i]) && c.Variant != Literal {
			return s, fmt.Errorf("%w: a new estimate after micro-batch %d, where no call was due", ErrRelease,
				next.Leaves)
		}
	}
	next.First, next.Second = estimates[0], estimates[1]
	return next, nil
}

// advance adds the nodes of a release and says which calls of the optimiser are due: it counts them and moves their
// anchors. It reads nothing but what was released.
func (c Config) advance(s State, v, h []int64) (next State, first, second bool, err error) {
	n := symmetric.Dim(c.Dimension)
	if len(v) != n || len(h) != n {
		return s, false, false, fmt.Errorf("%w: nodes of %d and %d numbers, want %d", ErrRelease, len(v), len(h), n)
	}
	if s.Leaves >= c.Leaves() {
		return s, false, false, fmt.Errorf("%w: all %d micro-batches are released", ErrRelease, s.Leaves)
	}
	next = s
	next.Leaves++
	next.NodesV, next.NodesH = s.NodesV.put(next.Leaves, v), s.NodesH.put(next.Leaves, h)
	sumV, sumH := next.NodesV.sum(next.Leaves, n), next.NodesH.sum(next.Leaves, n)
	if next.V, err = released(sumV, gridOf(c.NodeV), c.LambdaV, c.FloorV, c.Dimension); err != nil {
		return s, false, false, err
	}
	if next.H, err = released(sumH, gridOf(c.NodeH), c.LambdaH, c.FloorH, c.Dimension); err != nil {
		return s, false, false, err
	}
	if c.Variant != Literal && s.ExploreCalls < c.ExploreCalls {
		if first, err = exceeds(next.V, next.AnchorV, c.GrowthV, c.Dimension); err != nil {
			return s, false, false, err
		}
	}
	if s.SwitchCalls < c.SwitchCall {
		if second, err = exceeds(next.H, next.AnchorH, c.GrowthH, c.Dimension); err != nil {
			return s, false, false, err
		}
	}
	if first {
		next.ExploreCalls, next.AnchorV = s.ExploreCalls+1, next.V
	}
	if second {
		next.SwitchCalls, next.AnchorH = s.SwitchCalls+1, next.H
	}
	return next, first, second, nil
}

// Policy is what the people of the next micro-batch decide with. It has every number that they need, and the errors of
// matrices that are not finite, which no release that Apply takes has.
func (c Config) Policy(s State) (glm.Policy, error) {
	p := glm.Policy{Profile: glm.Joint, Epoch: s.Leaves, Family: c.Family.Name(), MaxReward: c.Family.MaxReward(),
		Dimension: c.Dimension, Radius: c.Radius, Theta: slices.Clone(s.Second), Play: glm.PlayOptimistic}
	v, err := inverse(s.V, c.Dimension)
	if err != nil {
		return p, err
	}
	anchor := v // V_o is V where the elimination of the listing takes V
	if c.Variant != Literal {
		if anchor, err = inverse(s.AnchorV, c.Dimension); err != nil {
			return p, err
		}
	}
	h, err := inverse(s.AnchorH, c.Dimension)
	if err != nil {
		return p, err
	}
	score := slices.Clone(s.Second)
	if c.Variant == Literal { // the public experiments score by the mean of the two estimates
		for j, u := range s.First {
			score[j] = (score[j] + u) / 2
		}
	}
	p.Criterion = &glm.Criterion{Covariance: v, Threshold: c.Threshold}
	p.Stages = []glm.Stage{{Theta: slices.Clone(s.First), Covariance: anchor, Width: c.Gamma * math.Sqrt(c.Kappa)}}
	p.Optimism = &glm.Stage{Theta: score, Covariance: h, Width: c.Beta}
	return p, nil
}

// released is lambda I plus the noised sum, with eigenvalues below the floor raised to it.
func released(sum []int64, grid, lambda, floor float64, d int) (symmetric.Packed, error) {
	values, k := make(symmetric.Packed, len(sum)), 0
	for i := range d {
		for j := i; j < d; j++ {
			values[k] = float64(sum[k]) * grid
			if i == j {
				values[k] += lambda
			} else {
				values[k] /= math.Sqrt2
			}
			k++
		}
	}
	eigenvalues, basis, err := convex.Spectrum(values.Dense(d))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRelease, err)
	}
	if eigenvalues[0] >= floor {
		return values, nil
	}
	for i, v := range eigenvalues {
		eigenvalues[i] = math.Max(v, floor)
	}
	return symmetric.Pack(convex.FromSpectrum(eigenvalues, basis)), nil
}

// exceeds reports whether the largest eigenvalue of anchor^-1 m is above growth: m is not below growth times the
// anchor. (A determinant says less: it can grow without any one direction growing, and m need not grow at all.)
func exceeds(m, anchor symmetric.Packed, growth float64, d int) (bool, error) {
	var cholesky mat.Cholesky
	if !cholesky.Factorize(anchor.Dense(d)) {
		return false, fmt.Errorf("%w: a released matrix is not positive definite", ErrRelease)
	}
	var l mat.TriDense
	cholesky.LTo(&l)
	var half, whole mat.Dense
	if err := half.Solve(&l, m.Dense(d)); err != nil {
		return false, fmt.Errorf("%w: %w", ErrRelease, err)
	}
	if err := whole.Solve(&l, half.T()); err != nil {
		return false, fmt.Errorf("%w: %w", ErrRelease, err)
	}
	symmetric := mat.NewSymDense(d, nil)
	for i := range d {
		for j := i; j < d; j++ {
			symmetric.SetSym(i, j, (whole.At(i, j)+whole.At(j, i))/2)
		}
	}
	eigenvalues, _, err := convex.Spectrum(symmetric)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrRelease, err)
	}
	return eigenvalues[d-1] > growth, nil
}

func inverse(m symmetric.Packed, d int) (symmetric.Packed, error) {
	eigenvalues, basis, err := convex.Spectrum(m.Dense(d))
	if err != nil {
		return nil, fmt.Errorf("%w: a released matrix has no inverse: %w", ErrRelease, err)
	}
	if !(eigenvalues[0] > 0) {
		return nil, fmt.Errorf("%w: a released matrix has no inverse: its smallest eigenvalue is %g", ErrRelease,
			eigenvalues[0])
	}
	for i, v := range eigenvalues {
		eigenvalues[i] = 1 / v
	}
	return symmetric.Pack(convex.FromSpectrum(eigenvalues, basis)), nil
}

func largest(m symmetric.Packed, d int) (float64, error) {
	eigenvalues, _, err := convex.Spectrum(m.Dense(d))
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrRelease, err)
	}
	return eigenvalues[d-1], nil
}

func scaledIdentity(d int, scale float64) symmetric.Packed {
	m := make(symmetric.Packed, 0, symmetric.Dim(d))
	for i := range d {
		m = append(m, scale)
		m = append(m, make([]float64, d-1-i)...)
	}
	return m
}
