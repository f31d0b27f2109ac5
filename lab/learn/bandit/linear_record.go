package bandit

import (
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/learn"
)

// optionLowest is the smallest reward that people can have, for the linear family whose rewards are coins in [0, 1]:
// a smaller range needs less noise. Default: the family's.
const optionLowest = "lowest_reward"

// linearRecord is how the linear bandits read a record: an arm of norm at most 1 and a reward in [Lowest, Highest].
// What it is given it clips, so that bounds hold for every record. Rewards of families other than linear are moved to
// [-1, 1]: their mean at a score of 0 is then 0, as in a linear model, if the family is symmetric.
type linearRecord struct {
	family          family.Family
	lowest, highest float64
	dimension       int
}

func newLinearRecord(s learn.Setting) linearRecord {
	r := linearRecord{family: s.Family, lowest: -1, highest: 1, dimension: s.Dimension}
	if s.Family.Name() == family.NameLinear {
		r.lowest = math.Min(1, math.Max(-1, s.Option(optionLowest, -1)))
	}
	return r
}

// span is the largest difference of two rewards.
func (l linearRecord) span() float64 { return l.highest - l.lowest }

// reward is the reward as the bandits read it.
func (l linearRecord) reward(y float64) float64 {
	if l.family.Name() != family.NameLinear {
		lo, hi := l.family.MinReward(), l.family.MaxReward()
		y = 2*(y-lo)/(hi-lo) - 1
	}
	if math.IsNaN(y) {
		return l.lowest
	}
	return math.Min(l.highest, math.Max(l.lowest, y))
}

// arm is the arm, in the unit ball; zeros if it is no vector of the dimension.
func (l linearRecord) arm(x []float64) []float64 {
	if len(x) == l.dimension {
		if y, err := (convex.Ball{Radius: 1}).Project(nil, x); err == nil {
			return y
		}
	}
	return make([]float64, l.dimension)
}

// momentsDiameter is sqrt(4.5), the largest distance of the moments of two records. Proof. A record's moments are those
// of a unit vector in more dimensions, less some coordinates: append sqrt(1 - |x|^2) and 0 to the one record's x, and 0
// and the same to the other's z. So let x and z be unit vectors, c = <x, z>, a = x - z and b = x + z, which are
// orthogonal. The upper triangle of xx' - zz' has the squared norm (|xx' - zz'|_F^2 + D)/2, where the first is 2 - 2c^2
// and D = sum (x_i^2 - z_i^2)^2 = sum (a_i b_i)^2. The a_i b_i sum to 0 and their absolute values to at most |a||b|, so
// that D <= 2 (|a||b|/2)^2 = 2 - 2c^2. And |xy - zw|^2 is convex in y and in w, so that it is at most 2 + 2|c|. The sum
// 4 + 2|c| - 2c^2 is largest at |c| = 1/2, where it is 4.5. It is attained in two dimensions; rewards in [0, 1] attain
// it, too.
var momentsDiameter = math.Sqrt(4.5)

// moments is the statistic (xx', xy): the upper triangle row by row, then the vector.
func (l linearRecord) moments() learn.Statistic {
	d := l.dimension
	n := d*(d+1)/2 + d
	s := learn.Statistic{Name: "second moments", Lower: constantVector(-1, n), Upper: constantVector(1, n),
		Diameter: momentsDiameter}
	s.Vector = func(dst []float64, r learn.Record) []float64 {
		x, y := l.arm(r.Arm), l.reward(r.Reward)
		for i := range x {
			for j := i; j < d; j++ {
				dst = append(dst, x[i]*x[j])
			}
		}
		for _, v := range x {
			dst = append(dst, v*y)
		}
		return dst
	}
	return s
}

func constantVector(v float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = v
	}
	return out
}
