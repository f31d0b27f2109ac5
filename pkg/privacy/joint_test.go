package privacy

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// either is the spread of two statistics of which a pair of records moves one fully, the other fully, or both partly:
// distances are the cosine and the sine of one angle.
func either(weights []float64) float64 { return math.Max(weights[0], weights[1]) }

// TestJointNeverBelowBruteForce: exact trade-offs of two releases, over the angles, offsets, signs and allocations.
func TestJointNeverBelowBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	y, won := tally{}, 0.0
	for y.settings < times(120, 20) {
		var releases []Release
		var noises [][]float64
		counts := []int{1, 1 + rng.IntN(2)}
		for _, count := range counts {
			n, p, d := randomNoise(rng, []int{40, 16}[counts[1]-1])
			d = math.Min(0.03, math.Pow(d, 0.6))
			r := Release{Blocks: []Block{{count, math.Inf(1)}}, Shift: 0.2 + 1.8*rng.Float64(), Noise: uint64(n),
				Bias: p, TailDelta: d}
			if rng.IntN(3) == 0 {
				r.Blocks[0].Levels = 0.7
			}
			releases, noises = append(releases, r), append(noises, coins(n, p))
		}
		g, err := CertifyJoint(releases, []float64{releases[0].Shift, releases[1].Shift}, either)
		if err != nil {
			continue
		}
		y.settings++
		a, _ := Certify(releases[0])
		b, _ := Certify(releases[1])
		won = math.Max(won, Compose(a, b).Mu/g.Mu)
		for k := range 8 {
			angle := math.Pi / 2 * []float64{0, 1, 0.5, rng.Float64()}[k%4]
			product := pair{[]float64{1}, []float64{1}}
			for i, share := range []float64{math.Cos(angle), math.Sin(angle)} {
				shift := share * releases[i].Shift
				other := 0.0
				if counts[i] == 2 {
					direction := rng.Float64() * math.Pi / 2
					shift, other = shift*math.Cos(direction), shift*math.Sin(direction)
				}
				for _, s := range []float64{shift, other}[:counts[i]] {
					s = math.Min(s, releases[i].Blocks[0].Levels)
					v := rng.Float64()
					if rng.IntN(2) == 0 {
						v, s = s+v, -s
					}
					product = product.times(encodedPair(noises[i], v, s))
				}
			}
			y.check(product, g, func() string { return fmt.Sprintf("%+v, angle %v", releases, angle) })
		}
	}
	if y.violation != "" {
		t.Error(y.violation)
	}
	if won < 1.2 {
		t.Errorf("the joint certificate is never much better than separate ones (best ratio %v)", won)
	}
	t.Logf("%d settings, %d comparisons, tightest %.6f, largest gain in mu %.4f",
		y.settings, y.comparisons, y.tightest, won)
}

// TestJointSeesBrokenSpread: with a spread that is too small by 20 %, brute force must object.
func TestJointSeesBrokenSpread(t *testing.T) {
	r := Release{Blocks: []Block{{1, math.Inf(1)}}, Shift: 1, Noise: 200, Bias: 0.5, TailDelta: 1e-6}
	g, err := CertifyJoint([]Release{r, r}, []float64{1, 1}, func(w []float64) float64 { return 0.8 * either(w) })
	if err != nil {
		t.Fatal(err)
	}
	noise := coins(200, 0.5)
	if exact := encodedPair(noise, 0, 1).times(encodedPair(noise, 0, 0)).mu(g.TailDelta); exact <= g.Mu {
		t.Errorf("exact mu %v within the broken bound %v", exact, g.Mu)
	}
}

// LargestJointFactor returns the largest factor, up to 1e-6, by which all releases can be scaled together for
// CertifyJoint to give Mu <= mu. TestJointGain uses it from outside the package.
func LargestJointFactor(t *testing.T, releases []Release, scales []float64, spread Spread, mu float64) float64 {
	t.Helper()
	lo, hi := 0.5, 1.5
	for hi-lo > 1e-6 {
		f := (lo + hi) / 2
		rs, ss := make([]Release, len(releases)), make([]float64, len(scales))
		for i, r := range releases {
			r.Blocks, r.Shift = scaled(r.Blocks, f), r.Shift*f
			rs[i], ss[i] = r, scales[i]*f
		}
		if g, err := CertifyJoint(rs, ss, spread); err == nil && g.Mu <= mu {
			lo = f
		} else {
			hi = f
		}
	}
	return lo
}

// TestJointAgainstSeparate: a spread that adds up to the separate certificates changes nothing but rounding; one that
// excludes joint extremes frees nearly the whole smaller release.
func TestJointAgainstSeparate(t *testing.T) {
	budget, err := MuFor(1, 0.98e-6)
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewCertifier(12000, 0.5, 1e-9)
	if err != nil {
		t.Fatal(err)
	}
	var releases []Release
	var scales []float64
	for i, share := range []float64{0.3, 0.7} {
		blocks := []Block{{[]int{15, 5}[i], math.Inf(1)}}
		s, err := c.LargestScale(1, blocks, budget*math.Sqrt(share))
		if err != nil {
			t.Fatal(err)
		}
		releases = append(releases, Release{Blocks: blocks, Shift: s, Noise: 12000, Bias: 0.5, TailDelta: 1e-9})
		scales = append(scales, s)
	}
	for _, q := range []struct {
		name      string
		spread    Spread
		low, high float64
	}{
		{"both extremes at once", func(w []float64) float64 { return w[0] + w[1] }, 0.9999, 1.002},
		{"one or the other", either, 1.15, math.Sqrt(1/0.7) * 1.0001},
	} {
		f := LargestJointFactor(t, releases, scales, q.spread, budget)
		if f < q.low || f > q.high {
			t.Errorf("%s: factor %v, want %v to %v", q.name, f, q.low, q.high)
		}
		t.Logf("%s: factor %.5f", q.name, f)
	}
}

func TestJointRefuses(t *testing.T) {
	r := Release{Blocks: []Block{{1, math.Inf(1)}}, Shift: 1, Noise: 200, Bias: 0.5, TailDelta: 1e-6}
	bad := r
	bad.Shift = math.NaN()
	narrow := r
	narrow.Noise = 2
	for name, q := range map[string]struct {
		releases []Release
		scales   []float64
		spread   Spread
		want     error
	}{
		"nothing":      {nil, nil, either, ErrRelease},
		"no spread":    {[]Release{r, r}, []float64{1, 1}, nil, ErrRelease},
		"one scale":    {[]Release{r, r}, []float64{1}, either, ErrRelease},
		"zero scale":   {[]Release{r, r}, []float64{1, 0}, either, ErrRelease},
		"NaN scale":    {[]Release{r, r}, []float64{1, math.NaN()}, either, ErrRelease},
		"bad release":  {[]Release{r, bad}, []float64{1, 1}, either, ErrRelease},
		"narrow noise": {[]Release{r, narrow}, []float64{1, 1}, either, ErrUncertified},
	} {
		if g, err := CertifyJoint(q.releases, q.scales, q.spread); !errors.Is(err, q.want) || g != NoGuarantee() {
			t.Errorf("%s: %+v, %v", name, g, err)
		}
	}
	// A spread of NaN must not win over the separate certificates.
	g, err := CertifyJoint([]Release{r, r}, []float64{1, 1}, func([]float64) float64 { return math.NaN() })
	a, _ := Certify(r)
	if err != nil || g != Compose(a, a) {
		t.Errorf("NaN spread: %+v, %v", g, err)
	}
}
