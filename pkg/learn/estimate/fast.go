package estimate

import "math"

// fastRatio is the c of Prop. C.5, with which lambda is 10.52 eps_N.
const fastRatio = 1.1

// FastSchedule is the tighter schedule for the normalization of "Near-optimal private learning in linear contextual
// bandits", Prop. C.5 (with Lemma C.4): a constant lambda = (c^2+1)/(c^2-1) eps_N for c = 1.1 and
//
//	eps_N = constant (ln(d K/p)/((c-1) N) + s sqrt(d + ln(K/p))/2),
//
// s the deviation of the noise of the mean's coordinates: 2 sigma/N with joint privacy. Then lambda falls like 1/N,
// where that of Prop. 4.3 falls like 1/sqrt N: it takes the sampling error as relative (Lemma A.3), which it is.
// Algorithm 12 rests on it.
//
// The paper gives no number for the constant C_0; it is LambdaMultiple.
func FastSchedule(constant float64, d, steps int, failure float64) Schedule {
	ratio := (fastRatio*fastRatio + 1) / (fastRatio*fastRatio - 1)
	spread := math.Sqrt(float64(d) + math.Log(float64(steps)/failure))
	sampling := math.Log(float64(d*steps)/failure) / (fastRatio - 1)
	return func(_, people int, deviation float64) float64 {
		return ratio * constant * (sampling/float64(max(1, people)) + deviation/2*spread)
	}
}
