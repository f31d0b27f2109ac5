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

	"github.com/riffle-dp/riffle/internal/lab/environment"
	"github.com/riffle-dp/riffle/internal/lab/population"
	"github.com/riffle-dp/riffle/internal/lab/simulate"
)

// job is one run: everything that its result depends on, but for the code.
type job struct {
	Environment environment.Spec `json:"environment"`
	Horizon     int              `json:"horizon"`
	Epsilon     float64          `json:"epsilon"` // 0: not private
	Delta       float64          `json:"delta"`
	Failure     float64          `json:"failure"`
	Algorithm   Algorithm        `json:"algorithm"`
	Seed        uint64           `json:"seed"`
}

// Result is what a job came to.
type Result struct {
	People   int       `json:"people"`
	Regret   float64   `json:"regret"`
	Value    float64   `json:"value"`           // mean value of what was played
	Final    *float64  `json:"final,omitempty"` // of the last estimate, on people held out
	Messages float64   `json:"messages"`        // per person
	Marks    []int     `json:"marks"`
	Course   []float64 `json:"course"`
}

// run is the job itself. It logs its decisions in a folder if one is named.
func (j job) run(ctx context.Context, logs string, advance func(people int)) (*Result, error) {
	e, err := j.Environment.Open(j.Seed, j.Horizon)
	if err != nil {
		return nil, err
	}
	player, err := j.player(e)
	if err != nil {
		return nil, err
	}
	playing, closeLog, err := j.logged(player, logs)
	if err != nil {
		return nil, err
	}
	score, err := simulate.Play(ctx, playing, e.People(), e.Info().People, marks(e.Info().People), advance)
	if err = errors.Join(err, closeLog()); err != nil {
		return nil, err
	}
	r := &Result{People: score.People, Regret: score.Regret, Value: score.Value, Marks: score.Marks, Course: score.Course}
	if s, ok := player.(simulate.Sender); ok {
		r.Messages = s.MessagesPerPerson()
	}
	if e.Info().HeldOut == 0 {
		return r, nil
	}
	follow := population.Player(nil)
	switch p := player.(type) {
	case simulate.Finisher:
		theta, err := p.Final()
		if err != nil {
			return nil, err
		}
		follow = population.Greedy(theta)
	default:
		follow = population.Choose(player.Choose)
	}
	v, err := population.Value(e.Holdout(), follow)
	r.Final = &v
	return r, err
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

// code is the digest of the running program: any change of the code is another program.
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
	program, err := code()
	if err != nil {
		return "", fmt.Errorf("%w: the program's digest: %w", ErrExperiment, err)
	}
	j.Algorithm.Name = "" // the same run under two names is one run
	j.Algorithm.Epsilons, j.Algorithm.Horizons = nil, nil
	text, err := json.Marshal(j)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(append([]byte(program), text...))
	return hex.EncodeToString(sum[:16]), nil
}

// cached runs the job unless its result is in the folder already, and puts it there. An empty folder name keeps nothing.
func (j job) cached(ctx context.Context, folder string, advance func(people int)) (*Result, error) {
	if folder == "" {
		return j.run(ctx, "", advance)
	}
	digest, err := j.digest()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(folder, digest+".json")
	if text, err := os.ReadFile(path); err == nil {
		r := &Result{}
		if json.Unmarshal(text, r) == nil { // a file that was cut off is run again
			advance(r.People)
			return r, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	r, err := j.run(ctx, "", advance)
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
