package statistic

import (
	"math"

	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// RewardsCentre is the middle of the range of rewards, and half its length.
func RewardsCentre(f family.Response) (middle, half float64) {
	least, most := f.MinReward(), f.MaxReward()
	return least + (most-least)/2, (most - least) / 2
}

// appendRewards appends the statistic Rewards of a record that is clipped and not null.
func appendRewards(dst []float64, f family.Response, r Record) []float64 {
	middle, half := RewardsCentre(f)
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
func rewardsBounds(f family.Response) Bounds {
	_, half := RewardsCentre(f)
	return Bounds{
		Lower: []float64{-half, -half, 0}, Upper: []float64{half, half, math.Sqrt(3) * half}, Diameter: 2 * half,
	}
}
