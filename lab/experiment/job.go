package experiment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/lab/environment"
)

// job is one run: everything that its result depends on except the code.
type job struct {
	Environment environment.Spec `json:"environment"`
	Horizon     int              `json:"horizon"`
	Epsilon     float64          `json:"epsilon"` // 0: no privacy
	Delta       float64          `json:"delta"`
	Failure     float64          `json:"failure"`
	Algorithm   AlgorithmSpec    `json:"algorithm"`
	Seed        uint64           `json:"seed"`
	// Data is the digest of the file of people, in a bake-off.
	Data   string                                              `json:"data,omitempty"`
	opener func(seed uint64) (*environment.Environment, error) // nil: of Environment
}

// of is the job with another seed.
func (j job) of(seed uint64) job {
	j.Seed = seed
	return j
}

// open makes the run of the job's seed.
func (j job) open() (*environment.Environment, error) {
	if j.opener != nil {
		return j.opener(j.Seed)
	}
	return j.Environment.Open(j.Seed, j.Horizon)
}

// result is the result of a job, as it is kept in the folder.
type result struct {
	play.Score
	Final    *float64 `json:"final,omitempty"` // mean value of the last estimate on people held out
	Messages float64  `json:"messages"`        // per person
	Spread   *float64 `json:"spread,omitempty"`
	// Spent is what every cohort has cost, for algorithms whose channel is named.
	Spent play.Spent `json:"spent,omitempty"`
}

// run does the job. It logs decisions in the folder logs unless that is empty.
func (j job) run(ctx context.Context, logs string, advance func(people int)) (*result, error) {
	e, err := j.open()
	if err != nil {
		return nil, err
	}
	algorithm, err := j.algorithm(e)
	if err != nil {
		return nil, err
	}
	playing, closeLog, err := j.withLog(algorithm, logs)
	if err != nil {
		return nil, err
	}
	score, err := play.Play(ctx, playing, e.People(), e.Info().People,
		j.marks(e.Info().People), advance)
	if err = errors.Join(err, closeLog()); err != nil {
		return nil, err
	}
	r := &result{Score: *score}
	if s, ok := algorithm.(play.Sender); ok {
		r.Messages = s.MessagesPerPerson()
	}
	if a, ok := algorithm.(*spread); ok {
		share := a.Spread()
		r.Spread = &share
	}
	if p, ok := algorithm.(play.Planner); ok && j.Algorithm.Trust != "" {
		r.Spent = p.Spent()
	}
	if e.Info().HeldOut == 0 {
		return r, nil
	}
	final := population.Choose(algorithm.Choose)
	if estimator, ok := algorithm.(play.Estimator); ok {
		theta, err := estimator.Final()
		if err != nil {
			return nil, err
		}
		final = population.Greedy(theta)
	}
	v, err := population.Value(e.Holdout(), final)
	r.Final = &v
	return r, err
}

// changePeriods are those that the course of a run is noted in where the world changes.
const changePeriods = 120

// marks are where the run's regret is noted: where the world changes, at the end of periods of equal length.
func (j job) marks(people int) []int {
	if j.Environment.Change == nil || people < changePeriods {
		return marks(people)
	}
	var out []int
	for i := range changePeriods {
		out = append(out, (i+1)*people/changePeriods)
	}
	return out
}

// marks are about a hundred numbers of people, evenly spaced on a logarithmic scale from 10 on.
func marks(people int) []int {
	const count = 100
	var out []int
	first := math.Min(10, float64(people))
	for i := range count + 1 {
		m := int(math.Round(first * math.Pow(float64(people)/first, float64(i)/count)))
		if len(out) == 0 || m > out[len(out)-1] {
			out = append(out, m)
		}
	}
	return out
}

// code is the digest of the running program, which changes with any change of the code.
var code = sync.OnceValues(func() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
})

// digest names the job's result: it covers the job and the program.
func (j job) digest() (string, error) {
	j.Algorithm.Name = "" // the same run under two names is one run
	j.Algorithm.MaxDimension = 0
	j.Algorithm.Epsilons, j.Algorithm.Horizons, j.Algorithm.Families, j.Algorithm.Delta = nil, nil, nil, 0
	j.Environment.People = 0
	return digest(j)
}

// digest names the result of a run that depends on the program and on all of this.
func digest(of any) (string, error) {
	program, err := code()
	if err != nil {
		return "", fmt.Errorf("%w: the program's digest: %w", ErrExperiment, err)
	}
	text, err := json.Marshal(of)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(append([]byte(program), text...))
	return hex.EncodeToString(sum[:16]), nil
}

// runCached runs the job unless its result is in the folder already, and keeps the result there. An empty folder keeps
// nothing.
func (j job) runCached(ctx context.Context, folder string, advance func(people int)) (*result, error) {
	ran := false
	r, err := kept(folder, j.digest, func() (*result, error) {
		ran = true
		return j.run(ctx, "", advance)
	})
	if err == nil && !ran {
		advance(r.People)
	}
	return r, err
}

// kept is the result of that name in the folder, or else that of run, which it keeps there.
func kept[R any](folder string, name func() (string, error), run func() (*R, error)) (*R, error) {
	if folder == "" {
		return run()
	}
	digest, err := name()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(folder, digest+".json")
	if text, err := os.ReadFile(path); err == nil {
		r := new(R)
		if json.Unmarshal(text, r) == nil { // a truncated file is ignored, and the job runs again
			return r, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	r, err := run()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(path+".part", text, 0o644); err != nil {
		return nil, err
	}
	return r, os.Rename(path+".part", path)
}
