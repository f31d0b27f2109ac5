package calibrate_test

import (
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/privacy/calibrate"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// A gradient of three coordinates in [-1, 1], of length at most 1, is summed over 2000 devices, of which 1800 must
// report and 100 may withhold their noise.
func ExampleBits() {
	gradient := privacy.Vector{
		Name: "gradient", Lower: []float64{-1, -1, -1}, Upper: []float64{1, 1, 1}, Diameter: 2,
	}
	request := calibrate.Request{
		Epsilon: 1, Delta: 1e-6, Cohort: 2000, MinCohort: 1800, MaxDishonest: 100,
		Releases: []privacy.Vector{gradient}, VarianceRatio: 2,
		Shares: privacy.Even(1), Biases: []protocol.Bias{protocol.BiasHalf},
	}
	s, err := calibrate.Bits(request)
	if err != nil {
		panic(err)
	}
	r := s.Releases[0]
	fmt.Printf("%d messages, %d noise bits per coordinate\n", s.Messages, r.Encoding.NoiseBits)
	fmt.Printf("epsilon %s, deviation of a sum %.1f, limited by %s\n", privacy.Spell(s.Epsilon), r.Deviation, r.Limit)

	request.MaxMessages = 10
	_, err = calibrate.Bits(request)
	var infeasible *calibrate.Infeasible
	fmt.Println(errors.As(err, &infeasible), infeasible.Constraint+":", infeasible.Remedy)
	// Output:
	// 27 messages, 2 noise bits per coordinate
	// epsilon 1.0000, deviation of a sum 11.3, limited by privacy
	// true MaxMessages: allow 27 messages or a variance ratio of 13.980
}
