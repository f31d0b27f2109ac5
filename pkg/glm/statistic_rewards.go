package glm

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
)

// rewardsCentre is the middle of the range of rewards, and half its length.
func rewardsCentre(f Response) (middle, half float64) {
	least, most := f.MinReward(), f.MaxReward()
	return least + (most-least)/2, (most - least) / 2
}

// appendRewards appends the statistic Rewards of a record that is clipped and not null.
func appendRewards(dst []float64, f Response, r Record) []float64 {
	middle, half := rewardsCentre(f)
	centred, came := r.Reward-middle, math.Sqrt(3)*half
	if r.Control {
		return append(dst, 0, centred, came)
	}
	return append(dst, centred, 0, came)
}

// rewardsBounds encloses (x, 0, c), (0, y, c) and (0, 0, 0) with |x|, |y| <= h, half the range of rewards, and
// c = sqrt(3) h. Two of the first kind are at most 2h apart, one of each at most sqrt(2) h, and each is at most
// sqrt(h^2 + 3h^2) = 2h from the null record. So the third number, which counts the decisions that a reward came for,
// costs nothing beside the first two.
func rewardsBounds(f Response) Bounds {
	_, half := rewardsCentre(f)
	return Bounds{
		Lower: []float64{-half, -half, 0}, Upper: []float64{half, half, math.Sqrt(3) * half}, Diameter: 2 * half,
	}
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
	vector := make([]float64, 0, len(dst))
	for _, r := range records {
		if vector, err = s.Vector(vector, r); err != nil {
			vector = vector[:0]
			continue
		}
		for j, v := range vector {
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
