package experiment

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/jedib0t/go-pretty/v6/table"
	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/chart"
	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/lab/regression"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// The kinds of experiments.
const (
	KindBandit = "bandit"
	// KindRegression compares estimators on data that no one decides for. A horizon is the number of people asked.
	KindRegression = "regression"
)

// Errors are those of a model in a row of KindRegression, means over seeds with standard errors; see regression.Score.
type Errors struct {
	MSE        float64  `json:"mse"`
	MSESE      float64  `json:"mse_se"`
	MAD        *float64 `json:"mad,omitempty"`
	MADSE      *float64 `json:"mad_se,omitempty"`
	Shifted    *float64 `json:"shifted,omitempty"`
	ShiftedSE  *float64 `json:"shifted_se,omitempty"`
	Coverage   *float64 `json:"coverage,omitempty"`
	CoverageSE *float64 `json:"coverage_se,omitempty"`
	Width      *float64 `json:"width,omitempty"` // mean bound of the model
}

func ofRegression(rows []Row) bool { return len(rows) > 0 && rows[0].Errors != nil }

func (e *Experiment) checkKind() error {
	switch e.Kind {
	case "", KindBandit:
		if len(e.Data) > 0 {
			return errors.New("data is for the kind regression")
		}
	case KindRegression:
		if len(e.Environments) > 0 {
			return errors.New("the kind regression has data in place of environments")
		}
	case KindBakeoff:
	default:
		return fmt.Errorf("kind %q is none of %s, %s and %s", e.Kind, KindBandit, KindRegression, KindBakeoff)
	}
	return nil
}

func (e *Experiment) validateRegression() error {
	for _, d := range e.Data {
		if err := d.Check(); err != nil {
			return err
		}
	}
	seen := map[string]bool{}
	for i := range e.Algorithms {
		a := &e.Algorithms[i]
		if a.Kind == "" {
			a.Kind = a.Name
		}
		entry, err := regression.Lookup(a.Kind)
		if err != nil {
			return err
		}
		if a.Trust == "" {
			a.Trust = entry.Trusts()[0]
		}
		if _, err := regression.Find(a.Kind, a.Trust); err != nil {
			return fmt.Errorf("algorithm %q: %w", a.Name, err)
		}
		if err := a.checkName(seen); err != nil {
			return err
		}
		if err := e.checkEpsilons(a, a.Trust != play.Clear); err != nil {
			return err
		}
	}
	return nil
}

// tasks lists the rows of a regression, and for each row the task of its first seed.
func (e *Experiment) tasks() (rows []Row, tasks []regression.Task, err error) {
	for _, d := range e.Data {
		for _, people := range slices.Sorted(slices.Values(e.Horizons)) {
			for _, a := range e.Algorithms {
				if a.Horizons != nil && !slices.Contains(a.Horizons, people) {
					continue
				}
				entry, err := regression.Lookup(a.Kind)
				if err != nil {
					return nil, nil, err
				}
				epsilons := e.Epsilons
				if a.Epsilons != nil {
					epsilons = a.Epsilons
				}
				if a.Trust == play.Clear {
					epsilons = []float64{0}
				}
				for _, epsilon := range epsilons {
					row := Row{Algorithm: a.Name, Environment: d.Label(), Trust: a.Trust, Horizon: people,
						Seeds: e.Seeds}
					if epsilon > 0 {
						row.Epsilon = &epsilon
						if !slices.Contains(entry.Pure, a.Variant) {
							row.Delta = e.Delta
						}
					}
					rows = append(rows, row)
					tasks = append(tasks, regression.Task{Data: d, Estimator: a.Kind, Trust: a.Trust,
						Variant: a.Variant,
						Options: a.Options, People: people, Epsilon: epsilon, Delta: e.Delta, Failure: e.Failure,
						Seed: e.FirstSeed})
				}
			}
		}
	}
	return rows, tasks, nil
}

// runRegression is Run of KindRegression.
func (e *Experiment) runRegression(ctx context.Context, o Options) ([]Row, error) {
	rows, tasks, err := e.tasks()
	if err != nil {
		return nil, err
	}
	if o.Logs != "" {
		return nil, fmt.Errorf("%w %q: a regression has no decisions to log", ErrExperiment, e.Name)
	}
	workers := o.Workers
	if workers < 1 {
		workers = runtime.GOMAXPROCS(0)
	}
	results := make([][]*regression.Result, len(tasks))
	var done atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for s := range e.Seeds {
		for i, t := range tasks {
			if s == 0 {
				results[i] = make([]*regression.Result, e.Seeds)
			}
			t.Seed = e.FirstSeed + uint64(s)
			group.Go(func() error {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				r, err := kept(o.Folder, func() (string, error) { return digest(t) },
					func() (*regression.Result, error) { return regression.Run(t) })
				if err != nil {
					return fmt.Errorf("%s on %s, %d people, epsilon %g, seed %d: %w", t.Estimator, t.Data.Label(),
						t.People, t.Epsilon, t.Seed, err)
				}
				results[i][s] = r
				if n := done.Add(1); o.Progress != nil {
					o.Progress(int(n), len(tasks)*e.Seeds)
				}
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for i := range rows {
		rows[i].Horizon = results[i][0].People
		rows[i].Errors = summariseErrors(results[i])
	}
	return rows, nil
}

func summariseErrors(results []*regression.Result) *Errors {
	of := func(f func(regression.Score) *float64) (mean, se *float64) {
		var values []float64
		for _, r := range results {
			if v := f(r.Score); v != nil {
				values = append(values, *v)
			}
		}
		if len(values) < len(results) { // not known in every run
			return nil, nil
		}
		m, s := play.MeanAndError(values)
		return &m, &s
	}
	var out Errors
	mse, se := of(func(s regression.Score) *float64 { return &s.MSE })
	out.MSE, out.MSESE = *mse, *se
	out.MAD, out.MADSE = of(func(s regression.Score) *float64 { return s.MAD })
	out.Shifted, out.ShiftedSE = of(func(s regression.Score) *float64 { return s.Shifted })
	out.Coverage, out.CoverageSE = of(func(s regression.Score) *float64 { return s.Coverage })
	out.Width, _ = of(func(s regression.Score) *float64 { return s.Width })
	return &out
}

// errorRow is a Row of a regression in JSON, with the keys of other rows where they apply.
type errorRow struct {
	Algorithm   string       `json:"algorithm"`
	Epsilon     *float64     `json:"epsilon"`
	Delta       *float64     `json:"delta,omitempty"` // 0: pure epsilon
	Horizon     int          `json:"horizon"`
	Seeds       int          `json:"seeds"`
	Environment string       `json:"environment"`
	Trust       plan.Channel `json:"trust"`
	*Errors
}

func errorRows(rows []Row) []errorRow {
	out := make([]errorRow, len(rows))
	for i, r := range rows {
		out[i] = errorRow{r.Algorithm, r.Epsilon, r.delta(), r.Horizon, r.Seeds, r.Environment, r.Trust, r.Errors}
	}
	return out
}

func writeErrorsCSV(w io.Writer, rows []Row) error {
	cell := func(v *float64) string {
		if v == nil {
			return ""
		}
		return strconv.FormatFloat(*v, 'g', 10, 64)
	}
	lines := [][]string{{"environment", "algorithm", "trust", "epsilon", "delta", "horizon", "seeds", "mse", "mse_se",
		"mad",
		"mad_se", "shifted", "shifted_se", "coverage", "coverage_se", "width"}}
	for _, r := range rows {
		lines = append(lines, []string{r.Environment, r.Algorithm, string(r.Trust), cell(r.Epsilon), cell(r.delta()),
			strconv.Itoa(r.Horizon), strconv.Itoa(r.Seeds), cell(&r.MSE), cell(&r.MSESE), cell(r.MAD), cell(r.MADSE),
			cell(r.Shifted), cell(r.ShiftedSE), cell(r.Coverage), cell(r.CoverageSE), cell(r.Width)})
	}
	return csv.NewWriter(w).WriteAll(lines)
}

// writeErrorsTable writes the rows of a regression.
func writeErrorsTable(w io.Writer, rows []Row, markdown bool) error {
	columns := chart.Columns{Left: 3}
	t := columns.Table("data", "estimator", "trust", "epsilon", "people", "seeds", "MSE", "MAD", "MAD, shifted",
		"coverage",
		"mean bound")
	cell := func(v, se *float64) string {
		switch {
		case v == nil:
			return ""
		case se == nil, rows[0].Seeds == 1: // one seed has no standard error
			return fmt.Sprintf("%.3g", *v)
		}
		return fmt.Sprintf("%.3g ± %.1g", *v, *se)
	}
	for _, r := range rows {
		epsilon, covered := "-", ""
		if r.Epsilon != nil {
			epsilon = strconv.FormatFloat(*r.Epsilon, 'g', -1, 64)
		}
		if r.Coverage != nil {
			covered = fmt.Sprintf("%.4g", *r.Coverage)
		}
		t.AppendRow(table.Row{r.Environment, r.Algorithm, r.Trust, epsilon, chart.Number(float64(r.Horizon), 0),
			r.Seeds,
			cell(&r.MSE, &r.MSESE), cell(r.MAD, r.MADSE), cell(r.Shifted, r.ShiftedSE), covered, cell(r.Width, nil)})
	}
	rendered := t.Render
	if markdown {
		rendered = t.RenderMarkdown
	}
	_, err := fmt.Fprintln(w, rendered())
	return err
}

// deviations draws the mean absolute deviation of every estimator over people, for the first epsilon, with a band of
// two standard errors.
func deviations(rows []Row, name string, delta float64) chart.Chart {
	first := 0.0
	for _, r := range rows {
		if r.Epsilon != nil && first == 0 {
			first = *r.Epsilon
		}
	}
	c := chart.Chart{X: "people", Y: "mean absolute deviation", LogX: true, LogY: true,
		Subtitle: fmt.Sprintf("%s, ε = %g, δ = %g, bands of two standard errors", name, first, delta)}
	at := map[string]int{}
	people := map[int]bool{}
	for _, r := range rows {
		if r.MAD == nil || !(*r.MAD > 0) || r.Epsilon != nil && *r.Epsilon != first {
			continue
		}
		i, ok := at[r.Algorithm]
		if !ok {
			i = len(c.Series)
			at[r.Algorithm] = i
			s := chart.Series{Name: r.Algorithm, Dots: true}
			if r.Trust == play.Clear {
				s.Colour, s.Dashed = chart.Grey, true
			}
			c.Series = append(c.Series, s)
		}
		s := &c.Series[i]
		people[r.Horizon] = true
		s.X, s.Y = append(s.X, float64(r.Horizon)), append(s.Y, *r.MAD)
		s.Low = append(s.Low, math.Max(*r.MAD/4, *r.MAD-2**r.MADSE))
		s.High = append(s.High, *r.MAD+2**r.MADSE)
	}
	if len(people) < 2 {
		return chart.Chart{}
	}
	return c
}
