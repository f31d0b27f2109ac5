package protocol_test

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

// A cohort of 1000 devices sums two numbers, each in [0, 1]. A real device draws from a cryptographic generator of its
// own.
func Example() {
	src := rand.NewChaCha8([32]byte{})
	e := protocol.Encoding{Scale: 10, NoiseBits: 6, Bias: protocol.BiasHalf}
	for range 2 {
		c, err := protocol.NewCoordinate(0, 1, e.Scale)
		if err != nil {
			panic(err)
		}
		e.Coordinates = append(e.Coordinates, c)
	}
	const reports = 1000
	var messages []protocol.Bit
	for range reports { // on each device
		ones, err := e.Encode(nil, []float64{0.25, 0.5}, src)
		if err != nil {
			panic(err)
		}
		if messages, err = e.AppendBits(messages, ones); err != nil {
			panic(err)
		}
	}
	protocol.Permute(messages, src) // in the shuffler
	counts := make([]uint64, 2)     // in the analyzer
	if err := protocol.Count(counts, messages); err != nil {
		panic(err)
	}
	sums, err := e.Decode(counts, reports, 0)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%d messages, %d of each device\n", len(messages), e.Messages())
	fmt.Printf("sums %.1f, standard deviation at most %.1f; without noise 250 and 500\n",
		sums, math.Sqrt(e.Variance(reports, 0)[0]))
	// Output:
	// 32000 messages, 32 of each device
	// sums [243.8 495.9], standard deviation at most 4.2; without noise 250 and 500
}
