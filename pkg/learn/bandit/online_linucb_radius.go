package bandit

import "math"

// OnlineBound is what the confidence radius of Online LinUCB is computed of.
type OnlineBound struct {
	People    int     // T
	Failure   float64 // alpha
	Epsilon   float64
	Delta     float64
	Sigma     float64 // noise of each coordinate of a report
	Domain    float64 // D
	Zeta      float64 // Delta^2
	Noise     float64 // R, of rewards
	Convexity float64 // mu of the expected loss, 2(lambda_min + Delta^2)
}

// Gradient is G of Appendix B of "Improved rate for locally differentially private linear bandits": the bound of the
// gradients' norms under the good event, with its absolute constant C as 1. Its event bounds |eta_x| by
// sigma sqrt(2 ln(2T/alpha)), which leaves out a factor of sqrt(d) that the tail of a Gaussian vector has.
func (b OnlineBound) Gradient() float64 {
	la := math.Log(2 * float64(b.People) / b.Failure)
	d, s, z := b.Domain, b.Sigma, math.Sqrt(b.Zeta)
	return 2*math.Sqrt(2*la)*(2*d*s+2*s+d*z+z) +
		2*la*(2*d*z*z+4*d*s*z+2*z*s+2*d*s*s+2*s*s+d*s*s) + 2*d + 2
}

// Radius is rho = M_T + K_T + 1 of Lemma 3.3 and Theorem C.2 of the same paper, with its unnamed constants as 1. The
// paper leaves out the 1, for the norm of theta*.
func (b OnlineBound) Radius() float64 {
	n, g, mu := float64(b.People), b.Gradient(), b.Convexity
	lf := math.Log(1 / b.Failure)
	q := 2*math.Log(math.Sqrt(3)*(math.Log2(n)/2+3)) + 1 + math.Log(n)
	a := (40*g*b.Domain+18*g*g/mu)*q + 32*g*g*lf/mu
	s := (80*g*b.Domain/mu+36*g*g/(mu*mu))*q + 64*g*g*lf/(mu*mu)
	inner := 8 * g * g * a / mu
	log := math.Log(16 / b.Failure * squareOf(math.Log(max(1, math.Sqrt(inner)))+2))
	m := a + 5*math.Sqrt(inner*log) + g*b.Domain*lf
	lt, ld, z := math.Log(n/b.Failure), math.Log(1/b.Delta), math.Sqrt(b.Zeta)
	private, spread := 0.0, 0.0
	if !math.IsInf(b.Epsilon, 1) {
		private, spread = ld/(b.Epsilon*b.Epsilon), b.Domain*math.Sqrt(ld)/b.Epsilon
	}
	k := b.Domain*b.Zeta*lt*math.Sqrt(n*s) + squareOf(b.Noise+spread+b.Domain*z)*lt + (private+b.Zeta)*lt*s
	return m + k + 1
}

// radius is that of a run for so many people.
func (p *onlineParameters) radius(people int, zeta float64) float64 {
	s := p.setting
	return OnlineBound{People: people, Failure: s.Failure, Epsilon: s.Epsilon, Delta: s.Delta, Sigma: p.sigma,
		Domain: p.domain, Zeta: zeta, Noise: p.span / 2,
		Convexity: 2 * (max(0, p.lambdaMin) + zeta)}.Radius()
}

func squareOf(v float64) float64 { return v * v }
