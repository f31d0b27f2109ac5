package estimate

import (
	"errors"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// ErrFit wraps every reason to refuse a fit.
var ErrFit = errors.New("estimate: no fit")

// Range is what is publicly known of a column before anyone looks at the data: values outside are clipped to it. A
// range that is computed from the data reveals the data of those who set it.
type Range struct{ Low, High float64 }

// LargestBound is the largest magnitude of a bound: coefficients and their variances are numbers then.
const LargestBound = 1e100

// narrowest is the least width of a range, as a share of its larger end, and the inverse of LargestBound is the least
// of all: narrower, the values of a column are but a few different numbers, and coefficients are rounding errors.
const narrowest = 1e-9

// Fits reports whether a column can have the range: its ends increase and can be told apart.
func (r Range) Fits() bool {
	end := math.Max(math.Abs(r.Low), math.Abs(r.High))
	return r.High-r.Low >= math.Max(narrowest*end, 1/LargestBound) && end <= LargestBound
}

func (r Range) center() float64 { return r.Low + (r.High-r.Low)/2 }

func (r Range) half() float64 { return (r.High - r.Low) / 2 }

// unit brings a value of the range to [-1, 1].
func (r Range) unit(v float64) float64 { return math.Max(-1, math.Min(1, (v-r.center())/r.half())) }

// Fit is what a private regression needs besides the data.
type Fit struct {
	Features       []Range
	Target         Range
	Epsilon, Delta float64 // of each person, who has one row; an epsilon of +Inf means no noise
	// Local has every row noised before it is added to others, as people's own devices would. Otherwise a curator who
	// sees all rows noises the sums.
	Local bool
	// Encode, if not nil, is for rows whose vectors travel as integers with binomial noise, as in the channels shuffle
	// and shares. It plans an encoding for each release of so many rows' vectors: all of them together keep to Epsilon
	// and Delta, divided by shares.
	Encode func(v privacy.Vector, shares []float64, rows int) ([]protocol.Encoding, privacy.Guarantee, error)
	// Groups is how many groups the rows are divided into (ByGroup), 0 for none.
	Groups int
	// Level of the confidence intervals, in (0, 1).
	Level float64
	Noise protocol.Source
	// Spend, if not nil, is told what the fit will reveal of a row, once nothing is left to refuse and before any noise
	// is drawn. Its error ends the fit, and nothing was revealed.
	Spend func(privacy.Guarantee) error
	// Released, if not nil, is told of each vector of sums with its noise: all that a fit is computed from, beside the
	// number of rows. It may keep the vector.
	Released func(sums []float64)
}

// tell gives Released its own copy of noised sums.
func (f Fit) tell(sums []float64) {
	if f.Released != nil {
		f.Released(slices.Clone(sums))
	}
}

// Coefficient is one of a fit, in units of the data.
type Coefficient struct {
	Value float64
	// Sampling and Noise are the parts of the standard error: that rows are a sample, and that they were noised.
	Sampling, Noise float64
	// Low and High are the ends of the confidence interval, infinite if the noise is too large for one.
	Low, High float64
}

// Fitted is the result of a fit. It is private, and all of it may be published.
type Fitted struct {
	Intercept    Coefficient
	Coefficients []Coefficient // of the features, in their order
	Residual     float64       // bound of the standard deviation of the target around the prediction
	Rows         int           // taken to be public
	Guarantee    privacy.Guarantee
	// Reliable is false where the noise is as large as what the data say in some direction. The coefficients are then
	// those of a ridge regression, and there are no intervals.
	Reliable bool
	// Bounded says that there are intervals although the fit is not Reliable: wide ones, without standard errors,
	// around coefficients that are not drawn to 0.
	Bounded bool
	// Weak are columns that are to blame where the fit is not Reliable.
	Weak []Weak
}
