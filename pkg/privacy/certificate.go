package privacy

import (
	"errors"
	"fmt"
	"math"
)

// Block describes coordinates of an encoded vector that share a range.
type Block struct {
	Count int // how many coordinates
	// Levels is the most levels by which the encoded value of one of them can move: its range times the scale, where
	// the encoder clamps to Levels rounded up. +Inf: no limit but Shift.
	Levels float64
}

// Release describes one run of the vector summation protocol (Riffle's seed paper, Algorithms 4 to 6) as far as its
// privacy depends on it.
type Release struct {
	Name   string  // for error messages
	Blocks []Block // all coordinates; every one carries its own independent noise and rounding bits
	// Shift is the l2 distance, in levels, by which replacing one record can move the encoded vector: diameter times
	// scale; real, > 0.
	Shift float64
	// Noise is the number of noise bits of honest devices per coordinate: the noise bits of one device times the fewest
	// reports less the most dishonest ones.
	Noise uint64
	Bias  float64 // probability of a noise bit, strictly between 0 and 1: exactly the sampled one (a dyadic number)
	// TailDelta is the probability given up per coordinate. The guarantee's TailDelta is this times the number of
	// coordinates; a few per cent of the delta in mind is a good total.
	TailDelta float64
}

const (
	// MinTailDelta is the smallest probability per coordinate that can be given up: the noise tables are exact far
	// below it.
	MinTailDelta = 1e-40
	// MaxTailDelta bounds the probability per coordinate that can be given up; useful values are far smaller.
	MaxTailDelta = 0.1
	// quantisation is how far a value may move per coordinate, in levels, because rounding fractions are multiples of
	// 2^-32 (2^-33 for each of two records) and because the value is computed in double precision (the other half).
	quantisation = 0x1p-31
	// safety is the relative amount by which every mu is raised: it covers the rounding of the few operations after the
	// tables and the tolerance of the searches.
	safety = 1e-6
	// Agreement bounds, as a part of itself, how much larger a guarantee may come out on one machine than on another:
	// Go fuses x*y+z to one rounding on arm64 and not on amd64, and exponentials are code of each platform. Whatever
	// comes out holds, on any of them. What is planned on one machine leaves Agreement of its epsilon unused, so that a
	// device of another kind does not find the plan weaker than was promised.
	//
	// The two machines round what they add and multiply by 2^-52 of each result at most, a fused operation by less.
	// The tables' relative error is bounded for either (Binomial.relativeError, below 1e-9 for a million bits), and
	// safety covers it and the little that comes after. What can amplify it is the search for lines, which may stop at
	// other ones: they are within 2e-7 of the best (envelope.improve). Measured are 4e-13. Mu is planned with a margin
	// of 1e-6 (muMargin).
	Agreement = 5e-7
)

var (
	// ErrRelease says that a field of a Release is outside its range. It is wrapped with the field and its value.
	ErrRelease = errors.New("privacy: invalid release")
	// ErrUncertified says that a valid release has no finite guarantee: its noise is too narrow for its shift and
	// TailDelta. More noise bits, a smaller scale or a larger TailDelta may help.
	ErrUncertified = errors.New("privacy: no finite guarantee")
)

// Certify returns a rigorous upper bound on what the release reveals about one record, for any other records, offsets
// of the encoded values and direction in which the vector moves. On error (ErrRelease, ErrNoise, ErrUncertified) it
// returns NoGuarantee.
//
// Proof sketch. (1) Each coordinate of the view is, up to post-processing by data that do not depend on the record,
// value + rounding bit + Bin(N,p); other devices' rounding bits, dishonest devices and noise bits beyond N only
// post-process. (2) Rounding plus binomial noise is an additive family in the real-valued shift, so shifts are measured
// before rounding and the l2 distance is Shift itself. (3) Every slope L yields a valid line, mu(t) <= L t + kappa (see
// scores.line). (4) Coordinates are independent: mu^2 <= sum over c of U(t_c)^2 where U is the lower envelope of the
// lines. As a function of t^2, U^2 is a minimum of concave increasing functions, hence concave: subject to sum t_c^2 <=
// Shift^2 and t_c <= Levels_c the sum is largest when the t_c are equal as far as the levels allow. (5) The given-up
// probabilities add. (6) Randomness of the device that comes before the encoding (its arm) is fixed first and mixed at
// the end: trade-off bounds survive mixtures.
func Certify(r Release) (Guarantee, error) {
	c, err := NewCertifier(r.Noise, r.Bias, r.TailDelta)
	if err != nil {
		return NoGuarantee(), fmt.Errorf("release %q: %w", r.Name, err)
	}
	g, err := c.Certify(r.Blocks, r.Shift)
	if err != nil {
		return NoGuarantee(), fmt.Errorf("release %q: %w", r.Name, err)
	}
	return g, nil
}

// A Certifier certifies any number of releases that share the noise of a coordinate. Making one tabulates that noise
// once, which is most of the work for a large N; it is immutable and safe for concurrent use.
type Certifier struct {
	scores    *scores
	tailDelta float64
}

// NewCertifier prepares certificates for coordinates with noise honest noise bits of the given bias each and tailDelta
// given up on each. See Release for the ranges. More than MaxNoise bits count as MaxNoise.
func NewCertifier(noise uint64, bias, tailDelta float64) (*Certifier, error) {
	return newCertifier(noise, bias, tailDelta, sabotage{})
}

func newCertifier(noise uint64, bias, tailDelta float64, broken sabotage) (*Certifier, error) {
	if !(tailDelta >= MinTailDelta && tailDelta <= MaxTailDelta) {
		return nil, fmt.Errorf("%w: TailDelta %v, want %v to %v", ErrRelease, tailDelta, MinTailDelta, MaxTailDelta)
	}
	bin, err := NewBinomial(min(noise, MaxNoise), bias)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRelease, err)
	}
	return &Certifier{scores: newScores(bin, tailDelta, broken), tailDelta: tailDelta}, nil
}

// Certify is the package's Certify for a release of these blocks and this shift.
func (c *Certifier) Certify(blocks []Block, shift float64) (Guarantee, error) {
	if err := checkBlocks(blocks); err != nil {
		return NoGuarantee(), err
	}
	if !(shift > 0) || math.IsInf(shift, 1) {
		return NoGuarantee(), fmt.Errorf("%w: Shift %v, want a finite number > 0", ErrRelease, shift)
	}
	e := newEnvelope(c.scores, blocks, shift)
	mu := e.minimise() * (1 + safety)
	g := Guarantee{Mu: mu, TailDelta: c.givenUp(blocks)}
	if !g.promises() {
		return NoGuarantee(), fmt.Errorf("%w: %d noise bits of bias %v are too narrow for a shift of %v levels "+
			"at TailDelta %v", ErrUncertified, c.scores.bin.n, c.scores.bin.p, shift, c.tailDelta)
	}
	return g, nil
}

// givenUp returns the sum of TailDelta over the coordinates, rounded up.
func (c *Certifier) givenUp(blocks []Block) float64 {
	if c.scores.broken.noTail {
		return 0
	}
	if c.scores.broken.oneTail {
		return c.tailDelta
	}
	n := 0
	for _, b := range blocks {
		n += b.Count
	}
	return math.Min(1, math.Nextafter(float64(n)*c.tailDelta, 2))
}

func checkBlocks(blocks []Block) error {
	if len(blocks) == 0 {
		return fmt.Errorf("%w: no Blocks, want at least one", ErrRelease)
	}
	total := 0
	for i, b := range blocks {
		if b.Count < 1 || b.Count > 1<<30 {
			return fmt.Errorf("%w: Blocks[%d].Count %d, want 1 to 2^30", ErrRelease, i, b.Count)
		}
		if !(b.Levels > 0) {
			return fmt.Errorf("%w: Blocks[%d].Levels %v, want a number > 0", ErrRelease, i, b.Levels)
		}
		total += b.Count
	}
	if total > 1<<30 {
		return fmt.Errorf("%w: %d coordinates, want at most 2^30", ErrRelease, total)
	}
	return nil
}
