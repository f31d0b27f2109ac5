package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"path/filepath"

	"github.com/riffle-dp/riffle/internal/chart"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/privacy/calibrate"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// The setting of all pictures unless they say otherwise.
const (
	epsilon = 1
	delta   = 1e-6
	folder  = "lab/figures"
)

// privacyPage draws the pictures of docs/privacy.md and prints the numbers in it that no other command prints. It takes
// some seconds and has no randomness: the same code draws the same pictures.
func privacyPage(w io.Writer) error {
	for _, picture := range []struct {
		name string
		draw func(w io.Writer) (chart.Chart, error)
	}{
		{"tradeoff.png", tradeoff}, {"certificate.png", certificate}, {"frontier.png", frontier},
		{"gradient.png", gradient},
	} {
		chart, err := picture.draw(w)
		if err == nil {
			err = chart.Save(filepath.Join(root, "docs", "figures", picture.name))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", picture.name, err)
		}
	}
	return numbers(w)
}

// shortPrivacy is what privacyPage draws and prints, but for what takes seconds: the search for the worst pair of
// records and the cost of precision.
func shortPrivacy() (found []any, err error) {
	var said bytes.Buffer
	for _, draw := range []func(w io.Writer) (chart.Chart, error){tradeoff, gradient} {
		c, err := draw(&said)
		if err != nil {
			return nil, err
		}
		found = append(found, c.Series)
	}
	err = numbers(&said)
	return append(found, said.String()), err
}

// numbers prints what the text of docs/privacy.md quotes besides the pictures.
func numbers(w io.Writer) error {
	mu, err := privacy.MuFor(epsilon, delta)
	if err != nil {
		return err
	}
	half, err := privacy.MuFor(epsilon/2.0, delta/2)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "budget: mu*(1, 1e-6) = %.5f, its square %.5f; mu*(1/2, 5e-7)^2 = %.5f\n", mu, mu*mu, half*half)
	for _, k := range []float64{2, 8} {
		fmt.Fprintf(w, "budget: %g cohorts that change with one record: epsilon %s instead of 1\n", k,
			privacy.Spell(privacy.Guarantee{Mu: mu * math.Sqrt(k)}.Epsilon(delta)))
	}
	theory := protocol.Theory{Reports: 2000, Dimension: 15, Epsilon: epsilon, Delta: delta}
	fmt.Fprintf(w, "theory: 2000 people, 15 coordinates: %g levels, %.3g noise bits per coordinate\n", theory.Levels(),
		theory.NoiseBits())
	for _, n := range []uint64{3000, 12000, 60000} {
		b, err := privacy.NewBinomial(n, 0.5)
		if err != nil {
			return err
		}
		c, err := privacy.NewCertifier(n, 0.5, 0.02*delta/15)
		if err != nil {
			return err
		}
		budget, err := privacy.MuFor(epsilon, 0.98*delta)
		if err != nil {
			return err
		}
		shift, err := c.LargestScale(1, []privacy.Block{{Count: 15, Levels: math.Inf(1)}}, budget)
		if err != nil {
			return err
		}
		r, err := privacy.Renyi([]privacy.IntegerRelease{{Noise: b, Dimension: 15, L2: shift + math.Sqrt(15),
			LInf: int(math.Ceil(shift)) + 1, Times: 1}}, 0.98*delta, 8.5)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "renyi: N=%d, shift %.3f: epsilon %s where the certificate has 1\n", n, shift,
			privacy.Spell(r.Epsilon))
	}
	return nil
}

func size(c chart.Chart) chart.Chart {
	c.Width, c.Height = 560, 340
	return c
}

// tradeoff shows the trade-off curve of one coordinate and what dominates it. The numbers are small so that the polygon
// can be seen.
func tradeoff(w io.Writer) (chart.Chart, error) {
	const n, p, v, t, tail = 24, 0.5, 0.3, 1.6, 1e-3
	b, err := privacy.NewBinomial(n, p)
	if err != nil {
		return chart.Chart{}, err
	}
	// interpolated is the distribution function of value + rounding + noise, relative to the value.
	interpolated := func(y float64) float64 {
		k := math.Floor(y)
		f := y - k
		return (1-f)*b.CDF(int(k)) + f*b.CDF(int(k)+1)
	}
	const last = 0.6 // false alarms shown
	var exact chart.Series
	for x := n + 3; x >= -1; x-- { // thresholds: the test decides for the second record above x
		y := float64(x) - v
		a, miss := 1-interpolated(y), interpolated(y-t)
		if k := len(exact.X) - 1; a > last { // cut the polygon's side
			miss = exact.Y[k] + (miss-exact.Y[k])*(last-exact.X[k])/(a-exact.X[k])
			a = last
		}
		exact.X, exact.Y = append(exact.X, a), append(exact.Y, miss)
		if a == last {
			break
		}
	}
	g, err := privacy.Certify(privacy.Release{Blocks: []privacy.Block{{Count: 1, Levels: math.Inf(1)}}, Shift: t,
		Noise: n, Bias: p, TailDelta: tail})
	if err != nil {
		return chart.Chart{}, err
	}
	certified := chart.Series{Name: fmt.Sprintf("certified: μ = %.3f", g.Mu), Width: 2.25}
	nothing := chart.Series{
		Name: "nothing learnt", X: []float64{0, last}, Y: []float64{1, 1 - last}, Dashed: true, Colour: chart.Grey,
		Width: 1.25,
	}
	for i := 0; i <= 200; i++ {
		a := last * float64(i) / 200
		certified.X, certified.Y = append(certified.X, a), append(certified.Y, tradeOff(a, g))
	}
	exact.Name, exact.Dots, exact.Width = "exact", true, 1.25
	fmt.Fprintf(w, "tradeoff: N=%d, t=%g: certified mu %.4f, Gaussian of the same variance %.4f\n", n, t, g.Mu,
		t/math.Sqrt(n*p*(1-p)))
	return size(chart.Chart{
		Title:    "What a threshold test can achieve",
		Subtitle: fmt.Sprintf("one coordinate moved by %g levels, %d noise bits, %g given up", t, n, tail),
		X:        "false alarms: the first record taken for the second", Y: "misses: the second taken for the first",
		Series: []chart.Series{certified, exact, nothing},
	}), nil
}

// tradeOff is the trade-off curve f(0,d) (x) G(mu) at a.
func tradeOff(a float64, g privacy.Guarantee) float64 {
	rest := 1 - g.TailDelta
	if a >= rest {
		return 0
	}
	if a == 0 {
		return rest
	}
	normal := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	return rest * normal(-math.Sqrt2*math.Erfinv(2*a/rest-1)-g.Mu) // Phi(Phi^-1(1-a/rest) - mu)
}

// certificate compares what is promised with the worst that a privacy-loss distribution finds, over the amount of
// noise.
func certificate(w io.Writer) (chart.Chart, error) {
	const coordinates = 15
	budget, err := privacy.MuFor(epsilon, 0.98*delta)
	if err != nil {
		return chart.Chart{}, err
	}
	promised := chart.Series{Name: "certified", Width: 2.25, Dots: true}
	worst := chart.Series{Name: "exact, worst found", Dots: true}
	gauss := chart.Series{Name: "Gaussian, same variance", Dashed: true, Colour: chart.Grey}
	for _, n := range []uint64{300, 600, 1200, 2500, 5000, 12000, 30000, 120000} {
		c, err := privacy.NewCertifier(n, 0.5, 0.02*delta/coordinates)
		if err != nil {
			return chart.Chart{}, err
		}
		blocks := []privacy.Block{{Count: coordinates, Levels: math.Inf(1)}}
		shift, err := c.LargestScale(1, blocks, budget)
		if err != nil {
			return chart.Chart{}, err
		}
		g, err := c.Certify(blocks, shift)
		if err != nil {
			return chart.Chart{}, err
		}
		exact, err := worstAllocation(n, shift, coordinates)
		if err != nil {
			return chart.Chart{}, err
		}
		smooth := privacy.Guarantee{Mu: shift / math.Sqrt(float64(n)/4)}.Epsilon(delta)
		fmt.Fprintf(w, "certificate: N=%d: shift %.3f, certified epsilon %s, worst allocation %.4f, Gaussian of the "+
			"same variance %.4f\n", n, shift, privacy.Spell(g.Epsilon(delta)), exact, smooth)
		for s, y := range map[*chart.Series]float64{&promised: g.Epsilon(delta), &worst: exact, &gauss: smooth} {
			s.X, s.Y = append(s.X, float64(n)), append(s.Y, y)
		}
	}
	return size(chart.Chart{
		Title: "How much the certificate gives away",
		Subtitle: fmt.Sprintf("%d coordinates at the largest scale for ε = %d, δ = %g; "+
			"each exact value is the worst of 48 pairs", coordinates, epsilon, delta),
		X: "honest noise bits per coordinate", Y: "ε at δ = 1e-6", LogX: true, YMin: 0.8,
		Series: []chart.Series{promised, worst, gauss},
	}), nil
}

// worstAllocation evaluates pairs of records that differ in one coordinate, in all equally, and in between, at several
// offsets, in both directions.
func worstAllocation(n uint64, shift float64, coordinates int) (float64, error) {
	b, err := privacy.NewBinomial(n, 0.5)
	if err != nil {
		return 0, err
	}
	worst := 0.0
	for _, moving := range []int{1, 2, 3, 5, 8, coordinates} {
		for _, offset := range []float64{0, 0.25, 0.5, 0.75} {
			for _, sign := range []float64{1, -1} {
				l, err := privacy.NewLossDistribution([]privacy.Move{{Noise: b, Offset: offset,
					Shift: sign * shift / math.Sqrt(float64(moving)), Count: moving}}, 8, 15)
				if err != nil {
					return 0, err
				}
				worst = math.Max(worst, l.Epsilon(delta))
			}
		}
	}
	return worst, nil
}

// frontier shows what precision costs in messages.
func frontier(w io.Writer) (chart.Chart, error) {
	const coordinates = 15
	s := privacy.Vector{Name: "vector", Diameter: 1}
	for range coordinates {
		s.Lower, s.Upper = append(s.Lower, -0.5), append(s.Upper, 0.5)
	}
	c := size(chart.Chart{
		Title: "What precision costs in messages",
		Subtitle: fmt.Sprintf("one vector of %d numbers and diameter 1, ε = %d, δ = %g, all honest", coordinates,
			epsilon, delta),
		X: "largest noise variance allowed (a trusted curator's = 1)",
		Y: "bit messages of one person, per coordinate", LogY: true,
	})
	var ratios []float64
	for r := 1.05; r <= 4; r += 0.05 {
		ratios = append(ratios, r)
	}
	for _, n := range []int{50000, 10000, 2000, 500} {
		plans, err := calibrate.Frontier(calibrate.Request{
			Epsilon: epsilon, Delta: delta, Cohort: n, MinCohort: n, Releases: []privacy.Vector{s},
			Shares: privacy.Even(1),
			Biases: []protocol.Bias{protocol.BiasHalf, protocol.BiasQuarter},
		}, ratios)
		if err != nil {
			return c, err
		}
		if len(plans) != len(ratios) {
			return c, fmt.Errorf("%d people: %d of %d ratios have a plan", n, len(plans), len(ratios))
		}
		line := chart.Series{Name: chart.Number(float64(n), 0) + " people", X: ratios}
		for i, p := range plans {
			line.Y = append(line.Y, float64(p.Messages)/coordinates)
			if r := ratios[i]; i == 3 || i == 19 {
				fmt.Fprintf(w, "frontier: %d people, ratio %.2f: %g messages per coordinate, %d noise bits of bias "+
					"%g\n", n,
					r, line.Y[i], p.Releases[0].Encoding.NoiseBits, p.Releases[0].Encoding.Bias.Float())
			}
		}
		c.Series = append(c.Series, line)
	}
	return c, nil
}

// gradient compares bounds of how far replacing one record can move a gradient.
func gradient(w io.Writer) (chart.Chart, error) {
	f, err := family.New(family.NameLogistic, 1)
	if err != nil {
		return chart.Chart{}, err
	}
	ball, plain := chart.Series{Name: "off-centre ball", Width: 2.25}, chart.Series{Name: "2 μ(‖θ‖)"}
	for i := 0; i <= 100; i++ {
		norm := 6 * float64(i) / 100
		_, radius := statistic.EnclosingBall(f, norm)
		ball.X, ball.Y = append(ball.X, norm), append(ball.Y, 2*radius)
		plain.X, plain.Y = append(plain.X, norm), append(plain.Y, 2*f.Mean(norm))
		if i%50 == 0 || i == 16 {
			fmt.Fprintf(w, "gradient: |theta| = %g: ball %.4f, plain bound %.4f, variance %.3f of it\n", norm, 2*radius,
				2*f.Mean(norm), math.Pow(radius/f.Mean(norm), 2))
		}
	}
	return size(chart.Chart{
		Title:    "How far one record can move a gradient",
		Subtitle: "logistic rewards, d ≥ 2; noise variance goes with the square",
		X:        "norm of the public point θ", Y: "l2 sensitivity when a record is replaced",
		Series: []chart.Series{ball, plain},
	}), nil
}
