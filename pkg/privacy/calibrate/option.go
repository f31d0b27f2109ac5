package calibrate

import (
	"errors"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// roundingVariance bounds the variance of one device's randomised rounding, in squared levels: f(1-f) <= 1/4.
const roundingVariance = 0.25

// solver finds options for the releases of one request and remembers what it has computed.
type solver struct {
	request  Request
	budget   privacy.Budget // by shares; a single search may hand parts of it on
	honest   int
	biases   []protocol.Bias
	shapes   []shape
	shapeOf  []int // of each release
	noises   map[noise]*privacy.Certifier
	ceilings map[ceilingKey]ceiling
}

// shape is what the search needs of a vector; equal vectors share one.
type shape struct {
	diameter    float64
	coordinates int
	ranges      []privacy.Block // of the coordinates, data units: they decide the messages
	certified   []privacy.Block // what the certificate is told of them, data units
	widest      float64
}

type noise struct {
	bits uint32
	bias protocol.Bias
}

type ceilingKey struct {
	shape int
	noise noise
	mu    float64
}

// ceiling is the largest scale for some noise and mu, and what limits it; scale 0: none.
type ceiling struct {
	scale float64
	limit Limit
}

// option is one way to make a release.
type option struct {
	noiseBits uint32
	bias      protocol.Bias
	scale     float64
	messages  int
	ratio     float64 // of noise variance, over the central Gaussian's
	limit     Limit
	guarantee privacy.Guarantee
}

func newSolver(r Request) (*solver, error) {
	if err := r.validate(); err != nil {
		return nil, err
	}
	budget, err := privacy.Divide(r.Epsilon, r.Delta, r.Releases, r.Shares)
	if err != nil {
		return nil, err
	}
	s := &solver{request: r, budget: budget, honest: r.MinCohort - r.MaxDishonest, biases: r.Biases,
		noises: map[noise]*privacy.Certifier{}, ceilings: map[ceilingKey]ceiling{}}
	for _, v := range r.Releases {
		s.shapeOf = append(s.shapeOf, s.shape(v))
	}
	return s, nil
}

// shape returns the index of the vector's shape.
func (s *solver) shape(v privacy.Vector) int {
	sh := shape{diameter: v.Diameter, coordinates: len(v.Lower), ranges: v.Blocks()}
	for i, other := range s.shapes {
		if other.diameter == sh.diameter && slices.Equal(other.ranges, sh.ranges) {
			return i
		}
	}
	sh.certified = sh.ranges
	if s.request.ShiftOnly {
		sh.certified = shiftOnly(sh.coordinates)
	}
	for _, b := range sh.ranges {
		sh.widest = math.Max(sh.widest, b.Levels)
	}
	s.shapes = append(s.shapes, sh)
	return len(s.shapes) - 1
}

// shiftOnly are the blocks of a vector of which only the shift is known.
func shiftOnly(coordinates int) []privacy.Block {
	return []privacy.Block{{Count: coordinates, Levels: math.Inf(1)}}
}

// messages is what a device sends at a scale.
func (sh shape) messages(scale float64, noiseBits uint32) int {
	total := sh.coordinates * int(noiseBits)
	for _, b := range sh.ranges {
		total += b.Count * int(math.Max(1, math.Ceil(b.Levels*scale)))
	}
	return total
}

// stepMargin keeps a scale clear of the point where a coordinate needs one more level, relatively: scales are rounded
// on their way into announcements.
const stepMargin = 1e-9

// stepUp is the largest scale with as many messages as the given one, or as a scale slightly above it: at least the
// given one.
func (sh shape) stepUp(scale float64) float64 {
	up := math.Inf(1)
	for _, b := range sh.ranges {
		up = math.Min(up, math.Max(1, math.Ceil(b.Levels*scale*(1+2*stepMargin)))/b.Levels)
	}
	return up * (1 - stepMargin)
}

// clear moves a scale away from a point where a coordinate needs one more level.
func (sh shape) clear(scale float64) float64 {
	if sh.messages(scale*(1-2*stepMargin), 0) != sh.messages(scale*(1+2*stepMargin), 0) {
		return scale * (1 - 6*stepMargin)
	}
	return scale
}

// within is the largest scale at which a device sends at most the given number of messages; 0: none.
func (sh shape) within(messages int, noiseBits uint32) float64 {
	levels := messages - sh.coordinates*int(noiseBits)
	if levels < sh.coordinates {
		return 0
	}
	lo, hi := 0.0, float64(levels)/sh.widest
	for range 50 {
		if mid := (lo + hi) / 2; sh.messages(mid, noiseBits) <= messages {
			lo = mid
		} else {
			hi = mid
		}
	}
	return sh.stepUp(lo * (1 - 4*stepMargin))
}

func (s *solver) certifier(n noise) (*privacy.Certifier, error) {
	if c, ok := s.noises[n]; ok {
		return c, nil
	}
	c, err := privacy.NewCertifier(uint64(s.honest)*uint64(n.bits), n.bias.Float(), s.budget.TailDelta)
	if err == nil {
		s.noises[n] = c
	}
	return c, err
}

// ceiling finds the largest scale of a release under its mu and the caps.
func (s *solver) ceiling(shapeIndex int, n noise, mu float64) (ceiling, error) {
	key := ceilingKey{shapeIndex, n, mu}
	if c, ok := s.ceilings[key]; ok {
		return c, nil
	}
	sh := s.shapes[shapeIndex]
	certifier, err := s.certifier(n)
	if err != nil {
		return ceiling{}, err
	}
	scale, err := certifier.LargestScale(sh.diameter, sh.certified, mu)
	if err != nil && !errors.Is(err, privacy.ErrUncertified) {
		return ceiling{}, err
	}
	c := ceiling{limit: LimitPrivacy}
	if err == nil {
		c.scale = scale * (1 - 1e-8) // room for what privacy.ReleaseOf adds against rounding
		most := privacy.MaxLevels / sh.widest
		if s.request.MaxShift > 0 {
			most = math.Min(most, s.request.MaxShift/sh.diameter)
		}
		if c.scale >= most {
			c = ceiling{most, LimitShift}
		}
		c.scale = sh.clear(c.scale * (1 - stepMargin))
	}
	s.ceilings[key] = c
	return c, nil
}

// variance is the largest that one coordinate of the sum can have, in squared data units.
func (s *solver) variance(noiseBits uint32, bias protocol.Bias, scale float64) float64 {
	return float64(s.request.Cohort) * levelVariance(noiseBits, bias) / (scale * scale)
}

// levelVariance is one device's part of the variance, in squared levels.
func levelVariance(noiseBits uint32, bias protocol.Bias) float64 {
	p := bias.Float()
	return roundingVariance + float64(noiseBits)*p*(1-p)
}

// release describes an encoded release for the certificate, as a device will.
func (s *solver) release(v privacy.Vector, e protocol.Encoding) (privacy.Release, error) {
	r, err := privacy.ReleaseOf(v, e, s.honest, s.budget.TailDelta)
	if err == nil && s.request.ShiftOnly {
		r.Blocks = shiftOnly(len(v.Lower))
	}
	return r, err
}

// option completes a choice of noise and scale for release i.
func (s *solver) option(i int, n noise, scale float64, limit Limit) option {
	central := s.shapes[s.shapeOf[i]].diameter / s.budget.Mu[i]
	return option{noiseBits: n.bits, bias: n.bias, scale: scale, limit: limit,
		messages: s.shapes[s.shapeOf[i]].messages(scale, n.bits),
		ratio:    s.variance(n.bits, n.bias, scale) / (central * central)}
}

// certify fills in what the option reveals.
func (s *solver) certify(i int, o option) (option, error) {
	v := s.request.Releases[i]
	e, err := privacy.EncodingAt(v, o.scale, o.noiseBits, o.bias)
	if err != nil {
		return o, err
	}
	r, err := s.release(v, e)
	if err != nil {
		return o, err
	}
	c, err := s.certifier(noise{o.noiseBits, o.bias})
	if err != nil {
		return o, err
	}
	o.guarantee, err = c.Certify(r.Blocks, r.Shift)
	return o, err
}

// leastBias is the smallest bias that soften tries.
const leastBias = protocol.BiasHalf >> 10

// soften spends what a scale that is limited by messages leaves of the budget: halving the bias of its noise bits costs
// no message and removes noise. A scale at the cap keeps its privacy instead, since its noise hardly matters.
func (s *solver) soften(mu []float64, options []option) error {
	for i, o := range options {
		for o.limit == LimitMessages && o.bias/2 >= leastBias {
			n := noise{o.noiseBits, o.bias / 2}
			c, err := s.ceiling(s.shapeOf[i], n, mu[i])
			if err != nil {
				return err
			}
			if c.scale < o.scale {
				break
			}
			o = s.option(i, n, o.scale, LimitMessages)
		}
		options[i] = o
	}
	return nil
}

// finish softens and certifies options.
func (s *solver) finish(mu []float64, options []option) ([]option, error) {
	if len(s.request.Biases) > 1 {
		if err := s.soften(mu, options); err != nil {
			return nil, err
		}
	}
	return s.certifyAll(options)
}

// certifyAll certifies the options; equal ones once.
func (s *solver) certifyAll(options []option) ([]option, error) {
	type key struct {
		shape int
		noise noise
		scale float64
	}
	done := map[key]privacy.Guarantee{}
	for i, o := range options {
		k := key{s.shapeOf[i], noise{o.noiseBits, o.bias}, o.scale}
		if g, ok := done[k]; ok {
			options[i].guarantee = g
			continue
		}
		var err error
		if options[i], err = s.certify(i, o); err != nil {
			return nil, err
		}
		done[k] = options[i].guarantee
	}
	return options, nil
}

// hungry reports whether a larger budget would let some release have a larger scale.
func hungry(options []option) bool {
	for _, o := range options {
		if o.limit == LimitPrivacy {
			return true
		}
	}
	return false
}

// better reports whether a beats b: by messages first and error second, or the other way round.
func better(a, b []option, errorFirst bool) bool {
	x, y := summarise(a), summarise(b)
	if errorFirst && x.largest != y.largest {
		return x.largest < y.largest
	}
	if !errorFirst && x.messages != y.messages {
		return x.messages < y.messages
	}
	return x.product < y.product*(1-1e-9)
}

type summary struct {
	messages         int
	largest, product float64 // of the variance ratios
}

func summarise(options []option) summary {
	s := summary{product: 1}
	for _, o := range options {
		s.messages += o.messages
		s.largest = math.Max(s.largest, o.ratio)
		s.product *= o.ratio
	}
	return s
}
