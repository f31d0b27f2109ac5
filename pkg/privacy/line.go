package privacy

import "math"

// A line bounds the price of a shift of one coordinate: for every offset of the encoded value and every real shift t in
// (0, window], the two laws are f(0,d) (x) G(slope*t + rise) apart at most.
type line struct{ slope, rise float64 }

func (l line) at(t float64) float64 { return l.slope*t + l.rise }

// scores holds, for the integer counts k of a table, the normal scores of the two ends of the trade-off curve at
// threshold k:
//
//	a(k) = Phi^-1((F(k)-d)/(1-d)),   c(k) = Phi^-1(F(k)/(1-d)),
//
// -Inf or +Inf where the event of probability d makes them vacuous. Between integers F is interpolated linearly, which
// is exactly what the randomised rounding of the encoding does to the distribution function, so the scores of every
// real threshold follow.
type scores struct {
	bin      *Binomial
	d        float64   // the given-up probability per coordinate that is used inside: a hair below the one promised
	a, c     []float64 // indexed like the table of bin
	logSlope []float64 // log of sqrt(2 pi) times the slope of (F-d)/(1-d) on the cell from k to k+1
	firstA   int       // first cell [k,k+1] on which a is not all vacuous (table index)
	lastC    int       // last cell on which c is not all vacuous
	center   float64
	slack    float64 // bound on the error of a difference of scores through rounding of the tables
	broken   sabotage
}

// sabotage breaks single steps of the certificate. Only tests set it, to show that brute force sees each of them
// broken.
type sabotage struct {
	stepwise     bool    // F in place of its interpolation: only integer thresholds and shifts
	noRise       bool    // drop the rise of the lines
	reach        float64 // multiply the shift that lines must cover; 0 means 1
	move         float64 // multiply the l2 shift; 0 means 1
	skipLower    bool    // leave out thresholds below the median
	skipUpper    bool    // leave out thresholds above the median
	mirror       bool    // take upper scores from the mirrored lower tail, as if the bias were 1/2
	doubleTail   bool    // give up twice TailDelta within a coordinate
	skipAdjacent bool    // leave out neighbouring cells, and with them pairs in one cell
	skipInterior bool    // leave out stationary points inside cells
	noGuard      bool    // treat a threshold below the moved law's support as vacuous
	dropOne      bool    // forget one coordinate
	oneTail      bool    // give up TailDelta once, not once per coordinate
	noTail       bool    // forget TailDelta in the result
}

func newScores(bin *Binomial, tailDelta float64, broken sabotage) *scores {
	eta := bin.relativeError
	s := &scores{
		bin: bin, broken: broken,
		// F exceeds its table by a factor of at most 1+eta, so (F-d) <= (1+eta)(table - d/(1+eta)): computing with
		// d/(1+eta) keeps the difference relative, however close F comes to d.
		d: tailDelta * (1 - 2*eta),
		a: make([]float64, len(bin.pmf)), c: make([]float64, len(bin.pmf)), logSlope: make([]float64, len(bin.pmf)),
		center: math.Round(float64(bin.n) * bin.p),
		// |d Phi^-1(u)| <= sqrt(pi/2) du/min(u,1-u); four table values meet in a difference; 1e-12 covers the double
		// rounding of scores below 40.
		slack: 8*eta + 1e-12,
	}
	if broken.doubleTail {
		s.d *= 2
	}
	rest := 1 - s.d
	for k := range s.a {
		f, g := bin.cdf[k], bin.sf[k]
		if f < 0.5 {
			s.a[k], s.c[k] = quantile((f-s.d)/rest), quantile(f/rest)
		} else {
			s.a[k], s.c[k] = -quantile(g/rest), -quantile((g-s.d)/rest)
		}
		if k+1 < len(bin.pmf) {
			s.logSlope[k] = math.Log(bin.pmf[k+1] * math.Sqrt(2*math.Pi) / rest)
		}
	}
	if broken.mirror {
		for k := range s.a {
			if m := 2*int(s.center) - 2*bin.first - 1 - k; bin.cdf[k] >= 0.5 && m >= 0 && m < len(s.a) {
				s.a[k], s.c[k] = -s.c[m], -s.a[m]
			}
		}
	}
	s.firstA, s.lastC = len(s.a), -1
	for k := 0; k+1 < len(s.a); k++ {
		if !math.IsInf(s.a[k+1], -1) {
			s.firstA = k
			break
		}
	}
	for k := len(s.c) - 1; k >= 0; k-- {
		if !math.IsInf(s.c[k], 1) {
			s.lastC = k
			break
		}
	}
	return s
}

// covers reports whether thresholds that are moved by up to window cells stay where both laws have mass: the guard
// F(window) <= d and its mirror image. Without it no finite mu exists for every offset.
func (s *scores) covers(window int) bool {
	if s.broken.noGuard {
		return window >= 1 && s.lastC+window+1 < len(s.a)
	}
	return window >= 1 && s.firstA-window >= 0 && s.lastC+window+1 < len(s.a) && !math.IsInf(s.a[s.lastC+window+1], 1)
}

// largestWindow returns the largest window that covers allows; 0 if none.
func (s *scores) largestWindow() int {
	lo, hi := 0, len(s.a)
	for lo < hi {
		if mid := (lo + hi + 1) / 2; s.covers(mid) {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo
}

// line returns the smallest rise for which a line of the given slope is valid on (0, window], and the distance between
// the two thresholds that determine it (minus the derivative of the rise; 0 when the rise is 0). The rise is +Inf where
// covers is false.
//
// Proof sketch. Let y be a threshold relative to the encoded value and y' = y-t the same threshold relative to the
// moved value. (1) The trade-off curve of the two laws is the polygon through (1-F(y), F(y')) over the admissible y,
// because likelihood ratios are monotone: rounding bits are ordered in likelihood ratio and the binomial is
// log-concave. (2) f(0,d) (x) G(mu) is convex, so it lies below the polygon if it does at the vertices, which reads
// a(y)-c(y') <= mu. (3) So rise >= sup a(y)-c(y')-slope*(y-y') over 0 < y-y' <= window gives mu(t) <= slope*t+rise for
// all t and all offsets at once. (4) y in cell i and y' in cell k < i: the supremum splits into sup(a-slope*y) over the
// cell i minus inf(c-slope*y') over the cell k, both attained at an end or at the one stationary point where the curve
// is concave (a < 0) or convex (c > 0). Cells are closed and k runs from i-window to i-1, which covers differences up
// to window and some beyond. (5) y and y' in the same cell i need no check of their own: for fixed y, inf over y' in
// [i,y] is at y'=i, which lies in cell i-1 too; or at y'=y, where a <= c; or at a stationary point with c(y') > 0. In
// the latter case a(y) <= 0 < c(y') is harmless, and where a > 0 it is convex, so its supremum is at y=y' (harmless) or
// at y=i+1, which lies in cell i+1 too.
func (s *scores) line(slope float64, window int) (l line, distance float64) {
	worst, distance := s.excess(slope, window)
	if worst <= 0 {
		worst, distance = 0, 0
	}
	return line{slope, worst + s.slack}, distance
}

// excess returns the supremum of step (4) of line, without its slack, and the distance at which it is attained.
func (s *scores) excess(slope float64, window int) (worst, distance float64) {
	if !(slope > 0) || !s.covers(window) {
		return math.Inf(1), 0
	}
	type candidate struct {
		cell  int
		value float64
		at    float64
	}
	logLine := math.Log(slope)
	worst = math.Inf(-1)
	queue := make([]candidate, 0, 64) // increasing values: the front is the minimum of the window
	head := 0
	last := min(s.lastC+window, len(s.a)-2)
	from := s.firstA
	next := max(0, from-window)
	margin := 1
	if s.broken.skipAdjacent {
		margin = 2
	}
	for i := from; i <= last; i++ {
		for ; next <= i-margin && next <= s.lastC; next++ {
			v, at := s.lowest(next, slope, logLine)
			for len(queue) > head && queue[len(queue)-1].value >= v {
				queue = queue[:len(queue)-1]
			}
			queue = append(queue, candidate{next, v, at})
		}
		for head < len(queue) && queue[head].cell < i-window {
			head++
		}
		if head == len(queue) {
			continue
		}
		if s.broken.skipLower && s.a[i+1] < 0 || s.broken.skipUpper && s.a[i] > 0 {
			continue
		}
		v, at := s.highest(i, slope, logLine)
		if x := v - queue[head].value; x > worst || math.IsNaN(x) {
			worst, distance = x, at-queue[head].at
		}
		if math.IsNaN(worst) {
			return math.Inf(1), 0
		}
	}
	return worst, distance
}

// highest returns sup of a(y) - slope*y over the closed cell [i,i+1], y counted from the centre, and where it is
// attained.
func (s *scores) highest(i int, slope, logLine float64) (value, at float64) {
	x := float64(i+s.bin.first) - s.center
	value, at = s.a[i]-slope*x, x
	if v := s.a[i+1] - slope*(x+1); v > value {
		value, at = v, x+1
	}
	if s.a[i] >= 0 || s.broken.skipInterior || s.broken.stepwise {
		return value, at
	}
	if q := s.logSlope[i] - logLine; q < 0 {
		if z := -math.Sqrt(-2 * q); z > s.a[i] && z < s.a[i+1] {
			y := x + (s.d+(1-s.d)*lowerTail(z)-s.bin.cdf[i])/s.bin.pmf[i+1]
			if v := z - slope*y; v > value {
				return v, y
			}
		}
	}
	return value, at
}

// lowest returns inf of c(y) - slope*y over the closed cell [i,i+1], y counted from the centre, and where it is
// attained.
func (s *scores) lowest(i int, slope, logLine float64) (value, at float64) {
	x := float64(i+s.bin.first) - s.center
	c := s.c
	value, at = c[i]-slope*x, x
	if s.broken.noGuard && math.IsInf(value, -1) {
		value = math.Inf(1)
	}
	if v := c[i+1] - slope*(x+1); v < value {
		value, at = v, x+1
	}
	if c[i+1] <= 0 || s.broken.skipInterior || s.broken.stepwise {
		return value, at
	}
	if q := s.logSlope[i] - logLine; q < 0 {
		if z := math.Sqrt(-2 * q); z > c[i] && z < c[i+1] {
			y := x + (s.bin.sf[i]-s.d-(1-s.d)*lowerTail(-z))/s.bin.pmf[i+1]
			if v := z - slope*y; v < value {
				return v, y
			}
		}
	}
	return value, at
}
