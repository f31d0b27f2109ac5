package seal_test

import "time"

// measure returns the nanoseconds of one call of each f: the least of several short runs, which take turns, so that
// other work on the machine disturbs their ratios least.
func measure(fs ...func()) []float64 {
	const runs, calls = 40, 20
	least := make([]float64, len(fs))
	for run := range runs {
		for i, f := range fs {
			start := time.Now()
			for range calls {
				f()
			}
			if d := float64(time.Since(start).Nanoseconds()) / calls; run == 0 || d < least[i] {
				least[i] = d
			}
		}
	}
	return least
}
