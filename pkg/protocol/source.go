package protocol

import "math/bits"

// Source is where random bits come from: 64 independent uniform bits per call. It has the method set of
// math/rand/v2.Source.
//
// On a device and in a shuffler it must be a cryptographic generator seeded from the operating system in the process
// that uses it; a generator copied by a fork or started from a stored image repeats itself, and a repeated stream
// cancels the noise. The one exception is a device.Device, whose stream repeats for the same report and no other. Tests
// and simulations pass math/rand/v2.NewChaCha8 with a seed. A Source is used by one goroutine at a time.
type Source interface{ Uint64() uint64 }

// Uniform returns a float in [0, 1) with 53 random bits. Decisions are drawn with it, never noise.
func Uniform(src Source) float64 { return float64(src.Uint64()>>11) * 0x1p-53 }

// below returns a uniform integer of [0, n), exactly: Lemire, "Fast Random Integer Generation in an Interval",
// Algorithm 5. The draws that would make some values likelier than others are rejected. n must not be zero.
func below(n uint64, src Source) uint64 {
	high, low := bits.Mul64(src.Uint64(), n)
	if low < n {
		for threshold := -n % n; low < threshold; {
			high, low = bits.Mul64(src.Uint64(), n)
		}
	}
	return high
}
