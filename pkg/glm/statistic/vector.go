package statistic

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// Vector writes the statistic of the record into dst[:0] and returns it; nil allocates. The record is clipped first:
// the arm to norm 1, the reward to the family's range, the weight to [0, WeightBound]. The vector therefore lies in
// Bounds for every record. The null record gives the zero vector. A NaN or an infinity is ErrNotFinite, an arm of
// another length than ArmDim ErrDimension, one that does not fit Structure ErrStructure, an invalid statistic
// ErrInvalid; the device then reports the null record instead. It never stays silent.
func (s Statistic) Vector(dst []float64, r Record) ([]float64, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if r.Null {
		return append(dst[:0], make([]float64, s.Dim())...), nil
	}
	return s.vector(dst[:0], r, s.products())
}

// vector appends the vector of a record that is not null. The statistic is valid.
func (s Statistic) vector(dst []float64, r Record, pairs products) ([]float64, error) {
	r, err := s.clip(r)
	if err != nil {
		return nil, err
	}
	switch s.Kind {
	case Gradient:
		residual := family.Residual(s.Family, s.Family.Mean(convex.Dot(r.Arm, s.Theta)), r.Reward)
		for _, v := range r.Arm {
			dst = append(dst, residual*v)
		}
		return dst, nil
	case Hessian:
		return pairs.append(dst, family.Curvature(s.Family, convex.Dot(r.Arm, s.Theta)), r.Arm), nil
	case Rewards:
		return appendRewards(dst, s.Family, r), nil
	case Pair:
		return append(append(dst, r.Arm...), r.Reward), nil
	case ClippedGradient:
		return s.appendClipped(dst, r), nil
	case Normalization, ReweightedGradient, ReweightedLinear:
		return s.appendReweighted(dst, r), nil
	case BinCount, BinFirst, BinSecond, BinErrors:
		return s.appendBins(dst, r), nil
	case Mean, Histogram, Fit:
		return s.appendAnswer(dst, r), nil
	case Row:
		explored := 0.0
		if r.Explored {
			explored = 1
		}
		return append(append(dst, r.Arm...), r.Reward, explored), nil
	default:
		return pairs.append(dst, r.Weight, r.Arm), nil
	}
}

// clip returns the record with the arm scaled down to norm 1, and with the reward clipped to the family's range or
// the weight to [0, WeightBound], whichever the statistic uses. The arm's memory is shared unless it is scaled.
func (s Statistic) clip(r Record) (Record, error) {
	if len(r.Arm) != s.ArmDim {
		return Record{}, fmt.Errorf("%w: the arm has %d coordinates, the statistic takes %d",
			ErrDimension, len(r.Arm), s.ArmDim)
	}
	if i := convex.FirstNotFinite(r.Arm); i >= 0 {
		return Record{}, fmt.Errorf("%w: coordinate %d of the arm", ErrNotFinite, i)
	}
	if !s.Structure.Fits(r.Arm) {
		return Record{}, ErrStructure
	}
	if !convex.IsFinite(r.Reward) {
		return Record{}, fmt.Errorf("%w: the reward", ErrNotFinite)
	}
	if !convex.IsFinite(r.Weight) {
		return Record{}, fmt.Errorf("%w: the weight", ErrNotFinite)
	}
	r.Arm, _ = convex.ToUnitBall(r.Arm)
	switch {
	case s.Kind == Covariance:
		r.Weight = math.Max(0, math.Min(r.Weight, s.WeightBound))
	case s.Family != nil: // all others but Normalization
		r.Reward = math.Max(s.Family.MinReward(), math.Min(r.Reward, s.Family.MaxReward()))
	}
	return r, nil
}

// Report writes what one device reports of all that a person did in an epoch into dst[:0] and returns it: the sum of
// the vectors of the records, of which there are at most so many, divided by most. It is a convex combination of
// vectors of single records, the null record among them (each with weight 1/most), and so it lies in Bounds, and two
// of them are no farther apart than two records' vectors can be: every bound that is the largest value of a convex
// function of two records' vectors holds, JointSpread among them, if the statistics of a release round are given the
// same records.
//
// A record that Vector refuses counts as null. The division is by most, not by the number of records: the sum over a
// cohort then stays unbiased where how often people decide depends on rewards. Errors: those of Validate; ErrDimension
// where there are more records than most.
func (s Statistic) Report(dst []float64, records []Record, most int) ([]float64, error) {
	if len(records) > most {
		return nil, fmt.Errorf("%w: %d records of an epoch, at most %d", ErrDimension, len(records), most)
	}
	dst, err := s.Vector(dst, Record{Null: true})
	if err != nil {
		return nil, err
	}
	pairs, vector := s.products(), make([]float64, 0, len(dst))
	for _, r := range records {
		if r.Null {
			continue
		}
		one, err := s.vector(vector, r, pairs)
		if err != nil {
			continue
		}
		for j, v := range one {
			dst[j] += v
		}
	}
	clear(vector[:cap(vector)])
	for j := range dst {
		dst[j] /= float64(most)
	}
	if i := convex.FirstNotFinite(dst); i >= 0 { // not reached: every vector lies in Bounds
		return nil, fmt.Errorf("%w: coordinate %d of a report", ErrNotFinite, i)
	}
	return dst, nil
}

// Bounds computes the bounds from the statistic alone, in well under a millisecond. Every number is an upper bound in
// the mathematical sense, error margins included, and is then widened by a relative 1e-9 for rounding.
func (s Statistic) Bounds() (Bounds, error) {
	if err := s.Validate(); err != nil {
		return Bounds{}, err
	}
	var b Bounds
	switch s.Kind {
	case Gradient:
		if runs := s.disjoint(); runs != nil {
			b = gradientBoundsOfRuns(s.Family, runs, s.ArmDim)
		} else {
			b = gradientBounds(s.Family, s.Theta)
		}
	case Hessian:
		if runs := s.disjoint(); runs != nil {
			b = s.possible(hessianBoundsOfRuns(s.Family, runs, s.ArmDim))
		} else {
			b = s.possible(hessianBounds(s.Family, s.Theta))
		}
	case Rewards:
		b = rewardsBounds(s.Family)
	case Pair:
		b = pairBounds(s.Family, s.ArmDim)
	case ClippedGradient:
		b = s.clippedBounds()
	case Normalization, ReweightedGradient, ReweightedLinear:
		b = s.reweightedBounds()
	case BinCount, BinFirst, BinSecond, BinErrors:
		b = s.binBounds()
	case Mean, Histogram, Fit:
		b = s.answerBounds()
	case Row:
		b = rowBounds(s.Family, s.ArmDim)
	default:
		b = s.possible(outerBounds(s.ArmDim, s.WeightBound))
	}
	b.Diameter *= 1 + boundsSlack
	b.Diameter1 *= 1 + boundsSlack
	for j := range b.Lower {
		slack := boundsSlack * math.Max(b.Upper[j]-b.Lower[j], b.Diameter*1e-3)
		b.Lower[j] -= slack
		b.Upper[j] += slack
	}
	return b, nil
}
