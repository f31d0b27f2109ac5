package estimate_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/riffle-dp/riffle/pkg/learn/estimate"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// groupTruth is what people of a group have beside truth: a shift of the target; and what they are of all.
var groupTruth = []struct{ shift, share float64 }{{0, 0.6}, {5, 0.4}, {0, 0}}

// grouped are people in groups, of which the last is empty, with the target of the family.
func grouped(n int, logistic bool, draw *rand.Rand) (rows [][]float64, target []float64, group []int) {
	rows, target = people(n, draw)
	for i, row := range rows {
		g := 0
		if draw.Float64() < groupTruth[1].share {
			g = 1
		}
		group = append(group, g)
		target[i] += groupTruth[g].shift
		if logistic {
			target[i] = 0
			if p := 1 / (1 + math.Exp(-groupLogit(g, row))); draw.Float64() < p {
				target[i] = 1
			}
		}
	}
	return rows, target, group
}

func groupLogit(g int, row []float64) float64 { return -2 + float64(g) + 0.05*row[0] - 0.4*row[1] }

// Intervals of 95 % of a group's number of rows, of its mean and of its coefficients hold the truth, whatever the
// family: with 60 runs of two groups each kind has at least 120, of which the share has a standard error of 2 %. The
// limits are at three and a half of them (false alarm 3e-4 for each of six, were the runs independent), and the long
// test, of 600 runs, is at four. Noise counted half makes it .67. The empty group has a number whose interval holds 0,
// and no mean but where noise alone makes it seem to have rows, in one of 40 runs.
func TestGroupsCover(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	runs, limit := 60, 0.95-3.5*0.02
	if os.Getenv("RIFFLE_LONG") != "" {
		runs, limit = 600, 0.95-4*0.0063
	}
	for _, logistic := range []bool{false, true} {
		n := 12_000
		draw := rand.New(rand.NewPCG(8, 8))
		var counts, means, coefficients, empty, meant, all, estimated float64
		for run := range runs {
			rows, target, group := grouped(n, logistic, draw)
			number, sum := make([]float64, 3), make([]float64, 3)
			for i, g := range group {
				number[g]++
				sum[g] += target[i]
			}
			f := fit(4, false, 0)
			f.Groups, f.Noise = 3, rand.NewChaCha8([32]byte{byte(run), byte(run >> 8), 79})
			out, err := f.ByGroup(rows, target, group, logistic)
			if err != nil {
				t.Fatal(err)
			}
			holds := func(c estimate.Coefficient, v float64) float64 {
				if c.Low <= v && v <= c.High {
					return 1
				}
				return 0
			}
			for g, o := range out[:2] {
				all++
				counts += holds(o.Count, number[g])
				// The population's mean, nearly: that of a million people has a hundredth of the error.
				means += holds(o.Mean, groupMean(g, logistic))
				want := []float64{truth[0] + groupTruth[g].shift, truth[1], truth[2]}
				if logistic {
					want = []float64{-2 + float64(g), 0.05, -0.4}
				}
				for i, c := range append([]estimate.Coefficient{o.Intercept}, o.Coefficients...) {
					coefficients += holds(c, want[i]) / 3
				}
				if o.Reliable || o.Bounded {
					estimated++
				}
			}
			empty += holds(out[2].Count, 0)
			if !math.IsInf(out[2].Mean.High, 1) {
				meant++
			}
			if out[2].Reliable || out[2].Bounded {
				t.Fatalf("an empty group has coefficients: %+v", out[2])
			}
		}
		t.Logf("logistic %v: numbers %.3f, means %.3f, coefficients %.3f, numbers of the empty group %.3f; %.3f have "+
			"intervals", logistic, counts/all, means/all, coefficients/all, empty/float64(runs), estimated/all)
		for _, share := range []float64{counts / all, means / all, coefficients / all} {
			if share < limit {
				t.Errorf("logistic %v: a share of %.3f holds the truth, want .95", logistic, share)
			}
		}
		if empty/float64(runs) < 0.95-3.5*0.028 || meant/float64(runs) > 0.1 || estimated/all < 0.9 {
			t.Errorf("logistic %v: %v of the empty group's numbers hold 0, and %v of its means have an interval; %v "+
				"of groups have intervals", logistic, empty/float64(runs), meant/float64(runs), estimated/all)
		}
	}
}

// groupMean is the mean of a group's target, by summing over a grid of the features: age and dose of people.
func groupMean(g int, logistic bool) float64 {
	const steps = 400
	sum := 0.0
	for i := range steps {
		for j := range steps {
			u, v := (float64(i)+0.5)/steps, (float64(j)+0.5)/steps
			row := []float64{20 + 60*u, 1 + 2*v + u}
			if logistic {
				sum += 1 / (1 + math.Exp(-groupLogit(g, row)))
			} else {
				sum += truth[0] + groupTruth[g].shift + truth[1]*row[0] + truth[2]*row[1]
			}
		}
	}
	return sum / steps / steps
}

// counting is a source that counts what was drawn of it.
type counting struct{ words int }

func (c *counting) Uint64() uint64 {
	c.words++
	return uint64(c.words) * 0x9e3779b97f4a7c15
}

// Spend is told of the guarantee before a single random word is drawn, and once all that is refused is refused: an
// error of it ends the fit with nothing drawn, and what cannot be fitted is never spent.
func TestNothingIsDrawnBeforeItIsSpent(t *testing.T) {
	rows, target, group := grouped(200, true, rand.New(rand.NewPCG(3, 4)))
	refused := errors.New("refused")
	encode := func(v privacy.Vector, shares []float64, _ int) (out []protocol.Encoding, g privacy.Guarantee,
		err error,
	) {
		for range shares {
			e, err := privacy.EncodingAt(v, 2, 40, protocol.BiasHalf)
			if err != nil {
				return nil, g, err
			}
			out = append(out, e)
		}
		return out, privacy.Guarantee{Mu: 1, TailDelta: 1e-8}, nil
	}
	for name, change := range map[string]func(f *estimate.Fit){
		"central": func(*estimate.Fit) {}, "local": func(f *estimate.Fit) { f.Local = true },
		"integers": func(f *estimate.Fit) { f.Encode = encode },
	} {
		fits := map[string]func(f estimate.Fit, target []float64) error{
			"linear": func(f estimate.Fit, target []float64) error {
				_, err := f.Linear(rows, target)
				return err
			},
			"logistic": func(f estimate.Fit, target []float64) error {
				_, err := f.Logistic(rows, target)
				return err
			},
			"linear by group": func(f estimate.Fit, target []float64) error {
				f.Groups = 3
				_, err := f.ByGroup(rows, target, group, false)
				return err
			},
			"logistic by group": func(f estimate.Fit, target []float64) error {
				f.Groups = 3
				_, err := f.ByGroup(rows, target, group, true)
				return err
			},
		}
		for kind, run := range fits {
			source, told, drawn := &counting{}, privacy.NoGuarantee(), -1
			f := fit(1, false, 0)
			change(&f)
			f.Noise = source
			f.Spend = func(g privacy.Guarantee) error {
				told, drawn = g, source.words
				return refused
			}
			if err := run(f, target); !errors.Is(err, refused) || source.words != 0 || !told.Promises() {
				t.Errorf("%s, %s: %v; %d words were drawn, told of %+v", name, kind, err, source.words, told)
			}
			f.Spend = func(privacy.Guarantee) error {
				drawn = source.words
				return nil
			}
			if err := run(f, target); err != nil || drawn != 0 || source.words == 0 {
				t.Errorf("%s, %s: %v; %d words were drawn before, %d at all", name, kind, err, drawn, source.words)
			}
			drawn = -1
			odd := append([]float64{math.NaN()}, target[1:]...)
			if err := run(f, odd); err == nil || drawn != -1 {
				t.Errorf("%s, %s: a target that is no number was spent on: %v", name, kind, err)
			}
		}
	}
}

// Groups that do not fit the rows are refused.
func TestGroupsAreRefused(t *testing.T) {
	rows, target, group := grouped(200, true, rand.New(rand.NewPCG(3, 4)))
	for name, c := range map[string]struct {
		groups int
		group  []int
	}{
		"none": {0, group}, "too few": {1, group}, "for fewer rows": {3, group[1:]}, "below 0": {3, append([]int{-1},
			group[1:]...)}, "too many": {1001, group},
	} {
		for _, logistic := range []bool{false, true} {
			f := fit(1, false, 0)
			f.Groups = c.groups
			if _, err := f.ByGroup(rows, target, c.group, logistic); !errors.Is(err, estimate.ErrFit) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
