package learn

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/glm/statistic"
)

// Announced is the statistic of data, as a deployment announces it. A record that the data refuse counts as null, as on
// a device. The error is that of the data's Bounds. The matrix and the point of the data must not change any more.
func Announced(data statistic.Statistic) (Statistic, error) {
	b, err := data.Bounds()
	if err != nil {
		return Statistic{}, fmt.Errorf("learn: %w", err)
	}
	n := len(b.Lower)
	s := Statistic{Name: string(data.Kind), Lower: b.Lower, Upper: b.Upper, Diameter: b.Diameter,
		Diameter1: b.Diameter * math.Sqrt(float64(n)), Data: &data}
	if b.Diameter1 > 0 {
		s.Diameter1 = b.Diameter1
	}
	s.Vector = func(dst []float64, r Record) []float64 {
		v, err := data.Vector(dst[len(dst):], statistic.Record{Arm: r.Arm, Reward: r.Reward})
		if err != nil {
			return append(dst, make([]float64, n)...)
		}
		return append(dst, v...)
	}
	return s, nil
}
