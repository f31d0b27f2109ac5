package population

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// A purpose separates the random streams that are derived from one seed.
type purpose uint64

// The streams of the environment. Their numbers are part of what a seed means: never renumber them.
const (
	streamOrder     purpose = 1 // order of people and membership of the holdout
	streamParameter purpose = 2 // the synthetic parameter
	streamArms      purpose = 3 // the synthetic population's fixed arm set
	streamPerson    purpose = 4 // arms and rewards of one synthetic person
	streamHeld      purpose = 5 // arms and rewards of one synthetic person held out
)

// stream returns the generator of one purpose and index. Streams of different (seed, purpose, index) share no key, so a person
// depends on the seed and on their own number alone, not on how many people came before them.
func stream(seed uint64, p purpose, index uint64) *rand.Rand {
	var key [32]byte
	copy(key[:8], "riffle/p")
	binary.LittleEndian.PutUint64(key[8:], seed)
	binary.LittleEndian.PutUint64(key[16:], uint64(p))
	binary.LittleEndian.PutUint64(key[24:], index)
	return rand.New(rand.NewChaCha8(key))
}

// sphere fills x with a point uniform on the sphere of the given radius.
func sphere(x []float64, radius float64, r *rand.Rand) {
	for {
		sum := 0.0
		for i := range x {
			x[i] = r.NormFloat64()
			sum += x[i] * x[i]
		}
		if sum < 1e-200 { // practically impossible; dividing by it would not be
			continue
		}
		scale := radius / math.Sqrt(sum)
		for i := range x {
			x[i] *= scale
		}
		return
	}
}

// ball fills x with a point uniform in the unit ball.
func ball(x []float64, r *rand.Rand) {
	sphere(x, math.Pow(r.Float64(), 1/float64(len(x))), r)
}
