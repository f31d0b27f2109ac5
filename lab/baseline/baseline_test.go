package baseline_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/lab/baseline"
	"github.com/riffle-dp/riffle/lab/environment"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
)

func setting(t testing.TB, e *environment.Environment) baseline.Setting {
	t.Helper()
	kappa, err := e.Kappa()
	if err != nil {
		t.Fatal(err)
	}
	return baseline.Setting{Family: e.Family, Dimension: e.Info().Dim, Radius: e.Info().NormBound,
		Horizon: e.Info().People, Failure: 0.02, Kappa: kappa,
		Source: rand.NewChaCha8([32]byte{3})}
}

// The width of GLM-UCB is the published one.
func TestGLMUCBHasThePublishedWidth(t *testing.T) {
	f, err := family.New("probit", 1)
	if err != nil {
		t.Fatal(err)
	}
	got := baseline.GLMUCBWidth(baseline.Setting{Family: f, Dimension: 3, Radius: 2, Horizon: 5000, Failure: 0.02,
		Kappa: 18.393670})
	if math.Abs(got-271.86354) > 1e-4 {
		t.Errorf("%.6f", got)
	}
}

// On the same 3000 people every learning algorithm has less regret than uniform play, by a factor that leaves its usual
// regret a wide margin, and none has less than nothing.
func TestBaselinesLearn(t *testing.T) {
	e, err := environment.Spec{Kind: environment.Ball, Dimension: 3, Arms: 8, Norm: 2}.Open(1, 3000)
	if err != nil {
		t.Fatal(err)
	}
	s := setting(t, e)
	cfg := learner.Config{Dimension: 3, Radius: 2, Horizon: 3000, Epsilon: 10}
	makers := map[string]func() (play.Algorithm, error){
		"uniform":  func() (play.Algorithm, error) { return &baseline.Uniform{Source: s.Source}, nil },
		"constant": func() (play.Algorithm, error) { return baseline.Constant(1), nil },
		"greedy":   func() (play.Algorithm, error) { return baseline.NewGreedy(s) },
		"b-glincb-g": func() (play.Algorithm, error) {
			return play.NewBatched(cfg, play.Exact, s.Source, nil)
		},
		"local-dp": func() (play.Algorithm, error) {
			return play.NewBatched(cfg, play.GaussianLocal(8, 1e-6), s.Source, s.Source)
		},
		"glm-ucb":   func() (play.Algorithm, error) { return baseline.NewGLMUCB(s) },
		"gloc":      func() (play.Algorithm, error) { return baseline.NewGLOC(s) },
		"rs-glincb": func() (play.Algorithm, error) { return baseline.NewRSGLinCB(s) },
		"ecolog":    func() (play.Algorithm, error) { return baseline.NewECOLog(s) },
		"fresh":     func() (play.Algorithm, error) { return baseline.NewFresh(s, e.Theta, 1, 1e-6, 1, 0, 0) },
		"cohorts":   func() (play.Algorithm, error) { return baseline.NewFresh(s, e.Theta, 1, 1e-6, 1, 150, 1.5) },
	}
	share := map[string]float64{"constant": 1.1, "greedy": 0.08, "b-glincb-g": 0.15, "local-dp": 0.9, "glm-ucb": 0.95,
		"gloc": 0.6, "rs-glincb": 0.5, "ecolog": 0.6, "fresh": 0.2, "cohorts": 0.3}
	regrets := map[string]float64{}
	for name, start := range makers {
		p, err := start()
		if err != nil {
			t.Fatal(name, err)
		}
		score, err := play.Play(context.Background(), p, e.People(), 3000, nil, nil)
		if err != nil {
			t.Fatal(name, err)
		}
		regrets[name] = score.Regret
	}
	t.Log(regrets)
	for name, most := range share {
		if r := regrets[name] / regrets["uniform"]; !(r > 0 && r < most) {
			t.Errorf("%s has %.3f of the regret of uniform play", name, r)
		}
	}
}

// The yardstick without privacy is no worse than greedy play on real estimates (with the same people, one run of each;
// the margin of 15 is several times what they differ by).
func TestFreshWithoutNoiseIsAsGoodAsGreedy(t *testing.T) {
	e, err := environment.Spec{Kind: environment.Ball}.Open(2, 3000)
	if err != nil {
		t.Fatal(err)
	}
	s := setting(t, e)
	yardstick, err := baseline.NewFresh(s, e.Theta, 0, 0, 1, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	greedy, err := baseline.NewGreedy(s)
	if err != nil {
		t.Fatal(err)
	}
	a, err := play.Play(context.Background(), yardstick, e.People(), 3000, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := play.Play(context.Background(), greedy, e.People(), 3000, nil, nil)
	if err != nil || a.Regret > b.Regret+15 {
		t.Errorf("yardstick %.1f, greedy %.1f, %v", a.Regret, b.Regret, err)
	}
}

func TestBadSettingsAreRefused(t *testing.T) {
	e, err := environment.Spec{Kind: environment.Ball, Family: "probit", Norm: 2}.Open(1, 10)
	if err != nil {
		t.Fatal(err)
	}
	good := setting(t, e)
	for name, change := range map[string]func(s *baseline.Setting){
		"family":  func(s *baseline.Setting) { s.Family = nil },
		"horizon": func(s *baseline.Setting) { s.Horizon = 0 },
		"radius":  func(s *baseline.Setting) { s.Radius = math.Inf(1) },
		"failure": func(s *baseline.Setting) { s.Failure = 1 },
		"kappa":   func(s *baseline.Setting) { s.Kappa = math.NaN() },
	} {
		s := good
		change(&s)
		if _, err := baseline.NewGLMUCB(s); !errors.Is(err, baseline.ErrSetting) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := baseline.NewECOLog(good); !errors.Is(err, baseline.ErrSetting) {
		t.Errorf("ECOLog on probit: %v", err)
	}
	if _, err := baseline.NewFresh(good, []float64{1}, 1, 1e-6, 1, 0, 0); !errors.Is(err, baseline.ErrSetting) {
		t.Errorf("parameter of another dimension: %v", err)
	}
}
