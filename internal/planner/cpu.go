package planner

import (
	"fmt"
	"math"
	"time"

	"github.com/riffle-dp/riffle/pkg/seal"
)

// How MeasureSeal measures: the best of a few batches, for other work on the machine only ever adds.
const (
	sealBatches = 5
	sealBatch   = 16
)

// MeasureSeal measures how many seconds one bit message takes to encrypt on this machine, now, in a few milliseconds.
// Nearly all CPU time of a report is this.
func MeasureSeal() (float64, error) {
	key, err := seal.GenerateHPKE()
	if err != nil {
		return 0, fmt.Errorf("planner: %w", err)
	}
	sealer, err := seal.NewBitSealer(key.Public(), [32]byte{})
	if err != nil {
		return 0, fmt.Errorf("planner: %w", err)
	}
	buffer := make([]byte, 0, sealBatch*seal.BitSize)
	best := math.Inf(1)
	for range sealBatches {
		buffer = buffer[:0]
		start := time.Now()
		for i := range sealBatch {
			if buffer, err = sealer.AppendSeal(buffer, 0, uint16(i), i%2 == 0); err != nil {
				return 0, fmt.Errorf("planner: %w", err)
			}
		}
		best = math.Min(best, time.Since(start).Seconds()/sealBatch)
	}
	return best, nil
}
