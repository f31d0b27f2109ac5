package family

import "math"

// Curvature is the weight of an outer product in a Hessian at the score z: the largest slope of a line through the mean
// that a Newton step should trust. For a symmetric response it is the secant of the mean from 0 to z,
//
//	(mu(z) - mu(0)) / z = the mean of mu' between 0 and z,
//
// and mu'(0) at 0. Of the logistic and the probit family, whose mu' falls with |z|, it is the least curvature of a
// parabola that touches the loss at z and at -z and lies above it everywhere (Jaakkola and Jordan, "Bayesian parameter
// estimation via variational methods", 2000). So a step that takes it for the slope never lands beyond the minimum of
// that parabola, where a step that takes mu' overshoots: on separable data, and where the model is wrong. Of the linear
// family it is mu'. Of a response that is not symmetric it is mu', too.
//
// As a mean of mu' over scores no larger, it is at most MaxVariance, and its second derivative at most a third of the
// bound of Smoothness: whatever is proved of mu' by these bounds holds of it.
func Curvature(f Response, z float64) float64 {
	if !f.Symmetric() {
		return f.Variance(z)
	}
	if math.Abs(z) < 0.005 { // the difference below would cancel; two nodes of Gauss are off by less than 1e-12 here
		near := 0.5 - 0.5/math.Sqrt(3)
		return (f.Variance(near*z) + f.Variance((1-near)*z)) / 2
	}
	return (f.Mean(z) - f.Mean(0)) / z
}

// Flatness is the largest share by which mu' is below Curvature for scores up to S, in [0, 1]: how wrong a step may be
// that takes the one for the other. 0 where they are the same: of a response that is not symmetric, and of the linear
// family.
func Flatness(f Response, S float64) float64 {
	return math.Max(0, 1-f.Variance(S)/Curvature(f, S))
}
