package population

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// A purpose separates the random streams that are derived from one seed.
type purpose uint64

// The streams of a population. Their numbers are part of what a seed means: never renumber them.
const (
	streamOrder     purpose = 1 // order of people and membership of the holdout
	streamParameter purpose = 2 // the synthetic parameter
	streamPerson    purpose = 4 // arms and rewards of one synthetic person
)

// stream returns the generator of one purpose and index. Streams of different (seed, purpose, index) share no key, so a
// person depends only on the seed and on their own number, not on how many people came before them.
func stream(seed uint64, p purpose, index uint64) *rand.Rand {
	var key [32]byte
	copy(key[:8], "riffle/p")
	binary.LittleEndian.PutUint64(key[8:], seed)
	binary.LittleEndian.PutUint64(key[16:], uint64(p))
	binary.LittleEndian.PutUint64(key[24:], index)
	return rand.New(rand.NewChaCha8(key))
}

// Sphere fills x with a point drawn uniformly from the sphere of the given radius.
func Sphere(x []float64, radius float64, r *rand.Rand) {
	square := 0.0
	for square < 1e-200 { // practically never twice; but dividing by such a square would overflow
		square = 0
		for i := range x {
			x[i] = r.NormFloat64()
			square += x[i] * x[i]
		}
	}
	scale := radius / math.Sqrt(square)
	for i := range x {
		x[i] *= scale
	}
}

// Ball fills x with a point drawn uniformly from the unit ball.
func Ball(x []float64, r *rand.Rand) {
	Sphere(x, math.Pow(r.Float64(), 1/float64(len(x))), r)
}
