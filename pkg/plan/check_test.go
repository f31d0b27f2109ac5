package plan

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// announce is the part of an announcement that this package reads, as the analyzer draws it up.
func announce(t interface{ Fatal(...any) }, step learner.Step, p *Proposal) *Announcement {
	a := &Announcement{Policy: step.Policy, Plan: p.Plan, Cohort: p.Cohort, Encodings: p.Encodings,
		Round: uint32(step.Round), Reference: make([]float64, step.Policy.Dimension)}
	for _, s := range step.Statistics[step.Round] {
		if s.Kind != statistic.Covariance {
			a.Reference = s.Theta
		}
	}
	return a
}

// severalRounds is the first step of the paper profile and the plan of its epoch.
func severalRounds(t *testing.T) (learner.Step, *Proposal) {
	t.Helper()
	l, err := learner.New(learner.Config{Profile: glm.Paper, Dimension: 3, Horizon: 20000,
		Paper: learner.PaperConfig{Rounds: 4}})
	if err != nil {
		t.Fatal(err)
	}
	step := l.Next()
	p, err := Propose(step, Terms{Epsilon: 1, Delta: 1e-6, MaxMessages: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return step, p
}

// stepAt is a practical step at a public point of the given norm.
func stepAt(t interface{ Fatal(...any) }, cfg learner.Config, cohort int, norm float64) learner.Step {
	l, err := learner.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	step := l.Next()
	step.Cohort = cohort
	f, err := family.New(l.Config().Family, l.Config().MaxReward)
	if err != nil {
		t.Fatal(err)
	}
	theta := make([]float64, cfg.Dimension)
	for i := range theta {
		theta[i] = norm / math.Sqrt(float64(cfg.Dimension))
	}
	score := glm.Score(f, glm.Practical)
	h, err := statistic.NewHessian(score, theta)
	if err != nil {
		t.Fatal(err)
	}
	g, err := statistic.NewGradient(score, theta)
	if err != nil {
		t.Fatal(err)
	}
	h.Structure, g.Structure = cfg.Structure, cfg.Structure
	step.Statistics = [][]statistic.Statistic{{h, g}}
	return step
}

var terms = Terms{Epsilon: 1, Delta: 1e-6, DropOut: 0.05, MaxMessages: 150, MaxShift: 16}

// Whatever is proposed, a device that believes nothing finds a guarantee within the target, and little better than what
// the planner promised; its reports have the messages that were planned.
func TestDevicesAcceptEveryProposal(t *testing.T) {
	if testing.Short() { // nothing of it runs at the same time as anything else
		t.Skip("without a second goroutine")
	}
	families := []string{"logistic", "probit", "poisson", "gaussian", "linear"}
	r := rand.New(rand.NewPCG(1, 2))
	between := func(low, high float64) float64 { return low + r.Float64()*(high-low) }
	for i := range cases(12) {
		cfg := learner.Config{Dimension: 1 + r.IntN(6), Horizon: 5000, Family: families[i%len(families)]}
		if cfg.Family == "poisson" || cfg.Family == "gaussian" {
			cfg.MaxReward = float64(1 + r.IntN(5))
		}
		if cfg.Dimension%2 == 0 {
			cfg.Structure = structure.Options(2, cfg.Dimension/2)
		}
		terms := Terms{
			Epsilon: between(0.3, 4), Delta: 1e-6, DropOut: between(0, 0.3), Dishonest: between(0,
				0.3), DishonestReports: r.IntN(40), MaxMessages: 100 + r.IntN(300), MaxShift: 16,
		}
		cohort := int(math.Exp(between(math.Log(100), math.Log(20000))))
		step := stepAt(t, cfg, cohort, between(0, 2.9))
		p, err := Propose(step, terms)
		if err != nil {
			t.Fatalf("%+v %+v: %v", cfg, terms, err)
		}
		a := announce(t, step, p)
		g, err := Guarantee(a, 0)
		if err != nil {
			t.Fatal(err)
		}
		if eps := g.Epsilon(terms.Delta); !(eps <= terms.Epsilon) || eps < p.Details.Epsilon*0.995 {
			t.Errorf("%+v %+v: a device computes epsilon %v, planned are %v", cfg, terms, eps, p.Details.Epsilon)
		}
		round, err := CheckRound(a)
		if err != nil {
			t.Fatal(err)
		}
		if want := max(float64(terms.DishonestReports),
			math.Ceil(float64(cohort)*terms.Dishonest)); float64(a.Cohort.MaxDishonest) != want ||
			float64(a.Cohort.Minimum) < float64(cohort)*(1-terms.DropOut) {
			t.Errorf("%+v: cohort %v", terms, a.Cohort)
		}
		if round.Messages != p.Details.Messages || round.Messages > terms.MaxMessages {
			t.Errorf("%+v %+v: %d messages, planned are %d", cfg, terms, round.Messages, p.Details.Messages)
		}
	}
}

// cases is how many random cases a test tries: more with RIFFLE_LONG=1.
func cases(n int) int {
	if os.Getenv("RIFFLE_LONG") != "" {
		return 20 * n
	}
	return n
}

// Every way to weaken an announced plan shows in the guarantee that a device computes, or is refused.
func TestWeakerAnnouncementShowsOrIsRefused(t *testing.T) {
	step := stepAt(t, learner.Config{Dimension: 4, Horizon: 5000}, 800, 0.7)
	p, err := Propose(step, terms)
	if err != nil {
		t.Fatal(err)
	}
	good := announce(t, step, p)
	before, err := Guarantee(good, 0)
	if err != nil {
		t.Fatal(err)
	}
	release := func(a *Announcement, i int) *Release { return &a.Plan.Rounds[0].Releases[i] }
	for name, change := range map[string]func(*Announcement){
		"fewer noise bits":             func(a *Announcement) { release(a, 0).NoiseBits-- },
		"fewer for the gradient":       func(a *Announcement) { release(a, 1).NoiseBits-- },
		"noise that is nearly certain": func(a *Announcement) { release(a, 1).Bias = 1 << 20 },
		"no noise":                     func(a *Announcement) { release(a, 1).NoiseBits = 0 },
		"a smaller minimum":            func(a *Announcement) { a.Cohort.Minimum -= 100 },
		"more dishonest reports":       func(a *Announcement) { a.Cohort.MaxDishonest += 100 },
		"no one honest":                func(a *Announcement) { a.Cohort.MaxDishonest = a.Cohort.Minimum },
		"a larger tail":                func(a *Announcement) { a.Plan.TailDelta *= 1000 },
		"a tail that is no number":     func(a *Announcement) { a.Plan.TailDelta = math.NaN() },
		"a larger scale":               func(a *Announcement) { a.Encodings[1].Scale *= 1.01 },
		"a larger scale and shift": func(a *Announcement) {
			a.Encodings[1].Scale *= 1.01
			release(a, 1).Shift *= 1.01
		},
		"a smaller shift":           func(a *Announcement) { release(a, 0).Shift *= 0.99 },
		"a shift that is no number": func(a *Announcement) { release(a, 0).Shift = math.NaN() },
		"the same releases twice":   func(a *Announcement) { a.Plan.Rounds = append(a.Plan.Rounds, a.Plan.Rounds[0]) },
		"a third release": func(a *Announcement) {
			a.Plan.Rounds[0].Releases = append(a.Plan.Rounds[0].Releases, *release(a, 1))
		},
		"a release without encoding":               func(a *Announcement) { a.Encodings = a.Encodings[:1] },
		"an encoding with less noise than planned": func(a *Announcement) { a.Encodings[1].NoiseBits-- },
		"an encoding with a coordinate of no levels": func(a *Announcement) {
			a.Encodings[1].Coordinates[0].Levels = 0
		},
		"an encoding with another bias": func(a *Announcement) { a.Encodings[0].Bias /= 2 },
		"no rounds":                     func(a *Announcement) { a.Plan.Rounds = nil },
		"an empty round": func(a *Announcement) {
			a.Plan.Rounds = append(a.Plan.Rounds,
				Round{})
		},
		"a point beyond the bound":    func(a *Announcement) { a.Reference[0] = 11 },
		"a point of larger gradients": func(a *Announcement) { a.Reference = []float64{2.5, 0, 0, 0} },
		"a point of another dimension": func(a *Announcement) {
			a.Reference = a.Reference[:2]
		},
		"the gradient as a covariance": func(a *Announcement) { release(a, 1).Statistic = statistic.Covariance },
		"an unknown statistic":         func(a *Announcement) { release(a, 1).Statistic = "entropy" },
		"larger rewards": func(a *Announcement) {
			a.Policy.Family, a.Policy.MaxReward = "poisson", 5
		},
	} {
		a := good.Clone()
		change(a)
		g, err := Guarantee(a, 0)
		if err != nil {
			if !errors.Is(err, ErrPlan) || g.Epsilon(1e-6) < math.Inf(1) {
				t.Errorf("%s: %v, with %+v", name, err, g)
			}
			continue
		}
		if !(g.Epsilon(1e-6) > before.Epsilon(1e-6)) {
			t.Errorf("%s: epsilon %v as before, %v", name, g.Epsilon(1e-6), before.Epsilon(1e-6))
		}
	}
	// A device's own bound on dishonest reports counts where it is the larger one.
	for _, own := range []int{0, 50, 200} {
		g, err := Guarantee(good, own)
		if err != nil {
			t.Fatal(err)
		}
		if own > 0 && !(g.Mu > before.Mu) || own == 0 && g != before {
			t.Errorf("%d dishonest: %+v, before %+v", own, g, before)
		}
	}
	if _, err := Guarantee(good, int(good.Cohort.Minimum)); err == nil ||
		!strings.Contains(err.Error(), "leaves no noise") {
		t.Errorf("every report dishonest: %v", err)
	}
}

// What CheckRound refuses by itself, for every planned shift.
func TestRoundOutOfRangeIsRefused(t *testing.T) {
	step := stepAt(t, learner.Config{Dimension: 4, Horizon: 5000}, 800, 0.7)
	p, err := Propose(step, terms)
	if err != nil {
		t.Fatal(err)
	}
	good := announce(t, step, p)
	for name, change := range map[string]func(*Announcement){
		"a point beyond the bound": func(a *Announcement) {
			a.Reference = []float64{6, 6, 6, 6} // of norm 12, the bound is 10
			a.Encodings[1].Scale /= 10
		},
		"a gradient without its last coordinate": func(a *Announcement) {
			a.Encodings[1].Coordinates = a.Encodings[1].Coordinates[:3]
		},
		"a scale that is no number": func(a *Announcement) { a.Encodings[0].Scale = math.NaN() },
		"a shift that is no number": func(a *Announcement) { a.Plan.Rounds[0].Releases[1].Shift = math.NaN() },
		"no encoding of a release":  func(a *Announcement) { a.Encodings = a.Encodings[:1] },
	} {
		a := good.Clone()
		change(a)
		if _, err := CheckRound(a); !errors.Is(err, ErrPlan) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The paper profile's later rounds are encoded at iterates that no one knew when the epoch was planned. Their scales
// follow, their shifts stay, and the epoch's guarantee holds all the same.
func TestLaterRoundsKeepTheirShift(t *testing.T) {
	step, p := severalRounds(t)
	first := announce(t, step, p)
	g, err := Guarantee(first, 0)
	if err != nil || !(g.Epsilon(1e-6) <= 1) || !(g.Epsilon(1e-6) > 0.99) ||
		math.Abs(g.Mu/p.Details.Guarantee.Mu-1) > 1e-6 {
		t.Fatalf("%+v, planned %+v, %v", g, p.Details.Guarantee, err)
	}
	f, err := family.New("logistic", 1)
	if err != nil {
		t.Fatal(err)
	}
	for round := 1; round < len(step.Statistics); round++ {
		theta := []float64{0.7 * float64(round), 0.1, -0.3}
		gradient, err := statistic.NewGradient(f, theta)
		if err != nil {
			t.Fatal(err)
		}
		later := step
		later.Round = round
		later.Statistics = append([][]statistic.Statistic(nil), step.Statistics...)
		later.Statistics[round] = []statistic.Statistic{gradient}
		encodings, err := Encode(p.Plan, later)
		if err != nil {
			t.Fatal(err)
		}
		a := announce(t, later, &Proposal{Plan: p.Plan, Cohort: p.Cohort, Encodings: encodings})
		checked, err := CheckRound(a)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		bounds, err := gradient.Bounds()
		if err != nil {
			t.Fatal(err)
		}
		got, want := checked.Encodings[0].Scale*bounds.Diameter, p.Plan.Rounds[round].Releases[0].Shift
		if math.Abs(got/want-1) > 1e-9 {
			t.Errorf("round %d: shift %v, planned %v", round, got, want)
		}
		if again, err := Guarantee(a, 0); err != nil || again != g {
			t.Errorf("round %d: guarantee %+v, of the epoch's first round %+v, %v", round, again, g, err)
		}
		// The first round's scale at this round's point would move records further.
		a.Encodings[0].Scale *= 1.001
		if _, err := CheckRound(a); !errors.Is(err, ErrPlan) {
			t.Errorf("round %d: a larger scale is accepted: %v", round, err)
		}
	}
	if _, err := Encode(p.Plan, learner.Step{Round: len(p.Plan.Rounds)}); !errors.Is(err, ErrPlan) {
		t.Errorf("a round beyond the plan: %v", err)
	}
}

// Between knots a chord lies above the spread, and hardly so.
func TestChordsLieJustAboveTheSpread(t *testing.T) {
	if testing.Short() { // nothing of it runs at the same time as anything else
		t.Skip("without a second goroutine")
	}
	step := stepAt(t, learner.Config{Dimension: 3, Horizon: 5000}, 500, 1)
	exact, err := statistic.JointSpread(step.Statistics[0][0], step.Statistics[0][1])
	if err != nil {
		t.Fatal(err)
	}
	c := newChords(exact)
	r := rand.New(rand.NewPCG(3, 4))
	for range cases(4) {
		w := []float64{math.Exp(4*r.Float64() - 2), math.Exp(4*r.Float64() - 2)}
		got, want := c.at(w), exact(w)
		// exact is itself an upper bound with a tolerance of 2e-3.
		if got < want*(1-2e-3) || got > want*(1+4e-3) {
			t.Errorf("weights %v: chord %v, exact %v", w, got, want)
		}
	}
	for _, w := range [][]float64{{0, 1}, {1, 0}, {0, 0}, {1}, {math.NaN(), 1}, {1, math.Inf(1)}} {
		if got, want := c.at(w), exact(w); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("weights %v: %v, exact %v", w, got, want)
		}
	}
}

// What the wire lets through is within the range of the certificate's quantisation margin.
func TestLevelsStayInRangeOfTheCertificate(t *testing.T) {
	if MaxReportMessages > privacy.MaxLevels {
		t.Errorf("a coordinate may have %d levels, at most %d can be certified", MaxReportMessages, privacy.MaxLevels)
	}
}

// Without a budget in messages or variance the learner's advice is taken.
func TestProposalFollowsTheLearnersVarianceRatio(t *testing.T) {
	step := stepAt(t, learner.Config{Dimension: 3, Horizon: 5000}, 1000, 0)
	step.VarianceRatio = 1.25
	p, err := Propose(step, Terms{Epsilon: 1, Delta: 1e-6})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range p.Details.Releases {
		if r.VarianceRatio > 1.25 {
			t.Errorf("%s: ratio %v", r.Statistic, r.VarianceRatio)
		}
	}
	if _, err := Propose(step, Terms{Epsilon: 1, Delta: 1e-6, MinCohort: 1001}); err == nil {
		t.Error("a minimum above the cohort is accepted")
	}
	for _, b := range DefaultBiases() {
		if b != protocol.BiasHalf && b != protocol.BiasQuarter {
			t.Errorf("bias %v", b)
		}
	}
}

// The guarantee for the reports that came counts their noise, less that of the reports that may be dishonest.
func TestGuaranteeCountsTheReportsThatCame(t *testing.T) {
	step := stepAt(t, learner.Config{Dimension: 3, Horizon: 5000}, 600, 0.5)
	terms := Terms{Epsilon: 1, Delta: 1e-6, DropOut: 0.05, DishonestReports: 5, MaxMessages: 150, MaxShift: 16}
	p, err := Propose(step, terms)
	if err != nil {
		t.Fatal(err)
	}
	a := announce(t, step, p)
	epsilon := func(reports, dishonest uint32) float64 {
		live := a.Clone()
		live.Cohort.MaxDishonest = dishonest
		g, err := GuaranteeWith(live, reports)
		if err != nil {
			t.Fatal(err)
		}
		return g.Epsilon(1e-6)
	}
	planned, err := Guarantee(a, 0)
	if err != nil {
		t.Fatal(err)
	}
	minimum := a.Cohort.Minimum
	if got := epsilon(minimum, 5); got != planned.Epsilon(1e-6) {
		t.Errorf("with the minimum cohort epsilon %v, planned %v", got, planned.Epsilon(1e-6))
	}
	more, exactly, fewer := epsilon(600, 5), epsilon(minimum, 5), epsilon(minimum-100, 5)
	if !(more < exactly && exactly < fewer) {
		t.Errorf("epsilon %v with more reports, %v with the minimum, %v with fewer", more, exactly, fewer)
	}
	if got, want := epsilon(minimum, 50), epsilon(minimum-45, 5); got != want {
		t.Errorf("epsilon %v with 45 more dishonest reports, %v with 45 fewer reports", got, want)
	}
	if a.Cohort.Minimum != minimum {
		t.Error("the announcement was changed")
	}
}
