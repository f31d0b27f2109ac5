package calibrate

import (
	"errors"
	"math"
	"testing"

	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// sumRequests is one request for each way in which sums are protected.
func sumRequests() map[string]SumRequest {
	base := SumRequest{Epsilon: 1, Delta: 1e-6, Cohort: 500, Releases: []privacy.Vector{unitVector(3), unitVector(2)},
		Shares: []float64{0.4, 0.6}, ShiftOnly: true, MaxEntryBits: 16, Ratio: 1.2}
	filled, central, servers, local := base, base, base, base
	filled.Counted, filled.Fill = 470, true
	central.Servers = 1
	servers.Servers = 2
	local.Counted, local.Own = 1, true
	return map[string]SumRequest{"filled": filled, "central": central, "servers": servers, "local": local}
}

// certified is what releases with these encodings reveal, computed without the solver.
func certified(t *testing.T, r SumRequest, s Solution, encodings []protocol.Encoding) float64 {
	t.Helper()
	var all []privacy.Guarantee
	for i, e := range encodings {
		noise := uint64(r.Counted) * uint64(e.NoiseBits)
		if r.Counted == 0 {
			noise = s.Releases[i].ServerNoise
		}
		v := r.Releases[i]
		g, err := privacy.Certify(privacy.Release{Name: v.Name, Shift: v.Diameter * e.Scale, Noise: noise,
			Bias:      e.Bias.Float(),
			TailDelta: s.TailDelta, Blocks: shiftOnly(len(e.Coordinates))})
		if errors.Is(err, privacy.ErrUncertified) {
			return math.Inf(1)
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, g)
	}
	return privacy.Compose(all...).Epsilon(r.Delta)
}

// The promise is kept and used up: with the noise of the solution it holds, and with half a per cent less of the noise,
// or of its deviation, it does not.
func TestSumsUseTheirBudget(t *testing.T) {
	for name, r := range sumRequests() {
		s, err := Sums(r)
		if err != nil {
			t.Fatal(name, err)
		}
		var same, less []protocol.Encoding
		for _, rel := range s.Releases {
			e := rel.Encoding
			same = append(same, e)
			e.Scale *= 1.005
			less = append(less, e)
		}
		if eps := certified(t, r, s, same); !(eps <= r.Epsilon && eps > 0.99*r.Epsilon) ||
			math.Abs(eps-s.Epsilon) > 1e-6 {
			t.Errorf("%s: epsilon %v, the solution says %v", name, eps, s.Epsilon)
		}
		if eps := certified(t, r, s, less); !(eps > r.Epsilon) {
			t.Errorf("%s: noise of a smaller deviation keeps the promise, too: %v", name, eps)
		}
	}
}

// The ratio that is reported is the variance of the encoding, and what it is divided by is computed from the budget.
func TestRatiosOfSumsAreThoseOfTheEncodings(t *testing.T) {
	for name, r := range sumRequests() {
		s, err := Sums(r)
		if err != nil {
			t.Fatal(name, err)
		}
		budget, err := privacy.Divide(r.Epsilon, r.Delta, r.Releases, r.Shares)
		if err != nil {
			t.Fatal(err)
		}
		for i, rel := range s.Releases {
			curator := r.Releases[i].Diameter / budget.Mu[i]
			variance := rel.Encoding.Variance(uint64(r.Cohort), uint64(r.Servers)*rel.ServerNoise)[0]
			if math.Abs(rel.VarianceRatio/(variance/(curator*curator))-1) > 1e-9 ||
				math.Abs(rel.Deviation*rel.Deviation/variance-1) > 1e-9 {
				t.Errorf("%s: release %d reports the ratio %v, it is %v", name, i, rel.VarianceRatio,
					variance/(curator*curator))
			}
			sources := map[string]float64{"filled": 1, "central": 1, "servers": 2, "local": float64(r.Cohort)}[name]
			if math.Abs(rel.IdealRatio*sources/rel.VarianceRatio-1) > 1e-9 || !(rel.IdealRatio <= r.Ratio) {
				t.Errorf("%s: release %d has the ratio %v to ideal noise, %v to a curator's", name, i, rel.IdealRatio,
					rel.VarianceRatio)
			}
		}
	}
}

// Fewer noise bits of a device than the solution's, by more than the search leaves open, have no scale that keeps
// both the budget and the ratio: every scale is tried, from too much noise to too large an error.
func TestNoFewerNoiseBitsWouldDo(t *testing.T) {
	for _, name := range []string{"local"} {
		r := sumRequests()[name]
		r.Ratio = 1.05
		r.Releases, r.Shares = r.Releases[:1], r.Shares[:1]
		s, err := Sums(r)
		if err != nil {
			t.Fatal(name, err)
		}
		rel := s.Releases[0]
		noise := max(rel.ServerNoise, uint64(rel.Encoding.NoiseBits))
		if noise <= leastNoise {
			t.Fatalf("%s: %d noise bits show nothing", name, noise)
		}
		s.Releases[0].ServerNoise = uint64(float64(rel.ServerNoise) * 0.88)
		e := rel.Encoding
		e.NoiseBits = uint32(float64(e.NoiseBits) * 0.88)
		for factor := 0.85; factor < 1.1; factor += 0.001 {
			e.Scale = rel.Encoding.Scale * factor
			variance := e.Variance(uint64(r.Cohort), uint64(r.Servers)*s.Releases[0].ServerNoise)[0]
			ratio := rel.IdealRatio * variance / (rel.Deviation * rel.Deviation)
			if ratio <= r.Ratio && certified(t, r, s, []protocol.Encoding{e}) <= r.Epsilon {
				t.Errorf("%s: 0.88 of %d noise bits at a scale of %v keeps epsilon and the ratio %v", name, noise,
					factor,
					ratio)
				break
			}
		}
	}
}

// Filled entries are the narrowest that meet the ratio, have no room left, and get wider for the finer ratio only as
// far as bits and poison allow.
func TestFilledEntries(t *testing.T) {
	r := sumRequests()["filled"]
	solve := func(change func(*SumRequest)) (width int, poison, ratio float64) {
		t.Helper()
		r := r
		change(&r)
		s, err := Sums(r)
		if err != nil {
			t.Fatal(err)
		}
		for i, rel := range s.Releases {
			variance := rel.Encoding.Variance(uint64(r.Cohort), 0)[0]
			most := math.Ldexp(1, s.EntryBits) - 1
			poison = max(poison, (most-float64(rel.Encoding.NoiseBits)/2)/math.Sqrt(variance)/rel.Encoding.Scale)
			ratio = max(ratio, rel.IdealRatio)
			if i == 0 && most-float64(rel.Encoding.MessagesAt(0)) > 1 {
				t.Errorf("release %d fills %d of %v", i, rel.Encoding.MessagesAt(0), most)
			}
		}
		return s.EntryBits, poison, ratio
	}
	coarse, _, _ := solve(func(*SumRequest) {})
	infeasible := r
	infeasible.MaxEntryBits = coarse - 1
	s, err := Sums(infeasible)
	if err == nil && math.Max(s.Releases[0].IdealRatio, s.Releases[1].IdealRatio) <= r.Ratio {
		t.Errorf("entries of %d bits would do, not only of %d", coarse-1, coarse)
	}
	finest := func(r *SumRequest) { r.Finer, r.FineBits, r.MaxPoison = 1.08, 1000, 1000 }
	wide, _, ratio := solve(finest)
	if wide <= coarse || ratio > 1.08 {
		t.Errorf("%d bits, ratio %v with any bits, %d bits without a finer ratio", wide, ratio, coarse)
	}
	for width := coarse; width <= wide; width++ {
		if got, _, _ := solve(func(r *SumRequest) { finest(r); r.FineBits = 5 * width }); got != width {
			t.Errorf("entries have %d bits where %d are affordable", got, width)
		}
		_, poison, _ := solve(func(r *SumRequest) { finest(r); r.FineBits = 5 * width })
		for _, c := range []struct {
			bound float64
			width int
		}{{poison * 1.001, width}, {poison * 0.999, max(width-1, coarse)}} {
			if got, p, _ := solve(func(r *SumRequest) { finest(r); r.MaxPoison = c.bound }); got != c.width {
				t.Errorf("entries of %d bits, poison %v, where %v is allowed: want %d bits", got, p, c.bound, c.width)
			}
		}
	}
}

func TestSumRequestsOutOfRange(t *testing.T) {
	for name, change := range map[string]func(*SumRequest){
		"no cohort": func(r *SumRequest) { r.Cohort = 0 }, "more counted": func(r *SumRequest) { r.Counted = 501 },
		"none counted":      func(r *SumRequest) { r.Counted = -1 },
		"own of many":       func(r *SumRequest) { r.Own = true },
		"nobody":            func(r *SumRequest) { r.Counted = 0 },
		"three servers":     func(r *SumRequest) { r.Counted, r.Servers = 0, 3 },
		"no loss":           func(r *SumRequest) { r.Ratio = 1 },
		"coarser":           func(r *SumRequest) { r.Finer = 1.3 },
		"no number":         func(r *SumRequest) { r.MaxPoison = math.NaN() },
		"negative bits":     func(r *SumRequest) { r.FineBits = -1 },
		"entries of 0":      func(r *SumRequest) { r.MaxEntryBits = 0 },
		"entries of 17":     func(r *SumRequest) { r.MaxEntryBits = 17 },
		"negative messages": func(r *SumRequest) { r.MaxMessages = -1 },
	} {
		r := sumRequests()["filled"]
		change(&r)
		if _, err := Sums(r); !errors.Is(err, privacy.ErrRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
