package replay

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat"
)

// The parts add up to the variance of the estimate, on average over logs. A run plays one of two options for everybody:
// the one that the rows it learns from say is better, up to noise, so that rows which score high teach more, and chance
// and contrasts share the noise. Over 3000 logs the mean of the sum is within a tenth of the variance over logs, of
// which the standard error is 2.6 % (false alarm 1e-3, with the second order that the parts leave out; seeds are
// fixed). Where what contrasts share with scores by chance is not subtracted, it is a fifth too small.
func TestPartsAreTheVariance(t *testing.T) {
	const logs, perGroup, rounds, gap, noise = 3000, 10, 10, 0.1, 0.08
	deviation := 0.11 / math.Sqrt2 * math.Sqrt(perGroup) // of a row's score for an option
	draw := rand.New(rand.NewPCG(29, 5))
	var estimates, totals []float64
	for number := range logs {
		r := &replayer{o: Options{seed: uint64(number)}, group: make([]int, groups*perGroup)}
		rows, means := make([][2]float64, len(r.group)), [2][groups]float64{}
		for i := range rows {
			r.group[i] = i % groups
			for a := range rows[i] {
				rows[i][a] = float64(a)*gap + deviation*draw.NormFloat64()
				means[a][i%groups] += rows[i][a] / perGroup
			}
		}
		f, values := &figure{}, make([]float64, len(rows))
		for q := range rounds {
			fold, scores, plays := r.o.folds(q), make([]float64, groups), [folds]int{}
			for out := range folds {
				better := noise * draw.NormFloat64()
				for g := range groups {
					if fold[g] != out {
						better += (means[1][g] - means[0][g]) / (groups - perFold)
					}
				}
				if better > 0 {
					plays[out] = 1
				}
			}
			for i, row := range rows {
				g := r.group[i]
				values[i] += row[plays[fold[g]]] / rounds
				scores[g] += row[plays[fold[g]]] / perGroup
			}
			f.groups = append(f.groups, scores)
		}
		p := r.parts(f, values)
		estimates, totals = append(estimates, stat.Mean(values, nil)), append(totals, p.Direct+p.Learning+p.Chance)
	}
	variance, mean := stat.Variance(estimates, nil), stat.Mean(totals, nil)
	t.Logf("variance %.3g, mean of the parts' sum %.3g", variance, mean)
	if math.Abs(mean/variance-1) > 0.1 {
		t.Errorf("the parts add up to %.3g on average, and the variance is %.3g", mean, variance)
	}
}
