package design

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The number of exchanges keeps its bound at every limit; with a cap, after which a coefficient of 2 will do, it keeps
// that of the limit 2.
func TestExchangesAreBounded(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	more, capped := 0, 0
	for range 2000 {
		n, d := 1+rng.IntN(60), 1+rng.IntN(8)
		arms := make([][]float64, n)
		for i := range arms {
			arms[i] = make([]float64, d)
			for j := range arms[i] {
				arms[i][j] = rng.NormFloat64() * math.Exp(3*rng.NormFloat64())
			}
		}
		for _, tolerance := range []float64{1, 0.1, 0.001} {
			picked, exchanges, err := spanner(arms, Options{Tolerance: tolerance})
			if err != nil {
				t.Fatal(err)
			}
			r := float64(len(picked))
			bound := func(limit float64) float64 { return r + r/2*math.Log(float64(n))/math.Log(limit) + 1e-9 }
			if float64(exchanges) > bound(1+tolerance) {
				t.Fatalf("%d exchanges for %d arms of rank %v with tolerance %v", exchanges, n, r, tolerance)
			}
			few, fewer, err := spanner(arms, Options{Tolerance: tolerance, MaxSteps: 1})
			if err != nil || len(few) != len(picked) || float64(fewer) > bound(2) {
				t.Fatalf("with a cap %d exchanges, of %v, %v", fewer, few, err)
			}
			if exchanges > len(picked) {
				more++
			}
			if fewer < exchanges {
				capped++
			}
		}
	}
	if more < 10 || capped < 10 {
		t.Errorf("in %d cases there was something to exchange, in %d the cap mattered: they show nothing", more, capped)
	}
}
