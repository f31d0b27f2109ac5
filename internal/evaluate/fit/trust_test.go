package fit

import (
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/pkg/learn/estimate"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// Intervals of 95 % of a logistic fit hold the truth in the trusts whose devices send integers, as planned for this
// many people: the three coefficients of 40 runs in each, of which the share has a standard error of at most 3.4 %. The
// limit is three and a half of them below (false alarm 3e-4 for each trust, were the runs independent); intervals half
// as wide hold it in .67. The guarantee is the one that was asked for, or a better one. The long test has the trust
// local, too, in which each of many more rows has noise of its own.
func TestLogisticFitsCoverInEveryTrust(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	const runs, delta = 40, 1e-6
	truth := []float64{-0.5, 1.5, -1}
	trusts := []plan.Channel{plan.Shuffle, plan.Shares}
	if os.Getenv("RIFFLE_LONG") != "" {
		trusts = append(trusts, plan.Local)
	}
	for _, trust := range trusts {
		n, epsilon := 8000, 3.0
		draw := rand.New(rand.NewPCG(29, 40))
		encode := encoder(play.Channel{Trust: trust, Epsilon: epsilon, Delta: delta})
		if trust == plan.Local {
			n, epsilon, encode = 40_000, 60, nil
		}
		held, count, squared := 0.0, 0.0, 0.0
		for run := range runs {
			rows, target := make([][]float64, n), make([]float64, n)
			for i := range rows {
				rows[i] = []float64{2*draw.Float64() - 1, 2*draw.Float64() - 1}
				p := 1 / (1 + math.Exp(-truth[0]-truth[1]*rows[i][0]-truth[2]*rows[i][1]))
				if draw.Float64() < p {
					target[i] = 1
				}
			}
			f := estimate.Fit{Features: []estimate.Range{{Low: -1, High: 1}, {Low: -1, High: 1}}, Epsilon: epsilon,
				Delta: delta, Level: 0.95, Encode: encode, Local: trust == plan.Local,
				Noise: rand.NewChaCha8([32]byte{byte(run), 29})}
			out, err := f.Logistic(rows, target)
			if err != nil {
				t.Fatal(err)
			}
			if e := out.Guarantee.Epsilon(delta); !(e <= epsilon) || e < 0.9 {
				t.Fatalf("%s: epsilon %v was asked for, and it is %v", trust, epsilon, e)
			}
			if !out.Reliable {
				continue
			}
			for i, c := range append([]estimate.Coefficient{out.Intercept}, out.Coefficients...) {
				if count++; c.Low <= truth[i] && truth[i] <= c.High {
					held++
				}
				squared += (c.Value - truth[i]) * (c.Value - truth[i]) / (c.Sampling*c.Sampling + c.Noise*c.Noise)
			}
		}
		t.Logf("%s: %.3f of intervals hold the truth, mean squared standardised error %.2f, %.0f of %d runs", trust,
			held/count, squared/count, count/3, runs)
		if held/count < 0.95-3.5*0.034 || count < 3*0.9*runs {
			t.Errorf("%s: %.3f of intervals hold the truth, want .95; %v of %d have standard errors", trust, held/count,
				count/3, runs)
		}
	}
}
