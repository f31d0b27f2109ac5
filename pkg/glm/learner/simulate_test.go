package learner_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/pkg/channel/simulated"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/privacy/calibrate"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// outcome is the result of a simulated run.
type outcome struct {
	value           float64 // mean value per person of what was played
	regret, uniform float64 // cumulative, of the run and of uniform play on the same people
	last            float64 // regret per person in the last epoch
	epochs          int
	messages        float64 // bit messages per person, mean
	largest         int     // bit messages of a person in the dearest epoch
	// survival is the share of decisions between several arms, after the first epoch, in which the best arm survived
	// elimination.
	survival float64
	epsilon  float64 // largest over epochs
	final    glm.Policy
	policies []glm.Policy // of every epoch
}

func (o outcome) ratio() float64 { return o.regret / o.uniform }

// budget says how the epochs of a simulation are planned.
type budget struct {
	epsilon, delta float64 // epsilon <= 0: no privacy, exact sums
	ratio          float64 // variance ratio; 0: the step's own advice
	maxShift       float64
	maxMessages    int     // with ratio < 0: the cap on messages, under which the variance is least
	dropOut        float64 // share of the cohort whose noise is not counted on, though all report
	noiseBits      uint32
}

// plans caches privacy plans over seeds: they depend on public numbers only.
type plans map[string]calibrate.Solution

func (p plans) of(t testing.TB, step learner.Step, b budget) calibrate.Solution {
	t.Helper()
	request := calibrate.Request{Epsilon: b.epsilon, Delta: b.delta, Cohort: step.Cohort,
		MinCohort:     int(math.Ceil(float64(step.Cohort) * (1 - b.dropOut))),
		VarianceRatio: b.ratio, MaxMessages: b.maxMessages, MaxShift: b.maxShift, NoiseBits: b.noiseBits,
		Biases: []protocol.Bias{protocol.BiasHalf}, ShiftOnly: true}
	if request.VarianceRatio < 0 {
		request.VarianceRatio = 0
	} else if request.VarianceRatio == 0 {
		request.VarianceRatio = step.VarianceRatio
	}
	for i, round := range step.Statistics {
		for j, s := range round {
			bounds, err := s.Bounds()
			if err != nil {
				t.Fatal(err)
			}
			request.Releases = append(request.Releases, privacy.Vector{Name: string(s.Kind), Lower: bounds.Lower,
				Upper: bounds.Upper, Diameter: bounds.Diameter})
			request.Shares = append(request.Shares, step.Shares[i][j])
		}
	}
	plan, err := calibrate.Bits(request)
	if err != nil {
		t.Fatalf("epoch %d of %d people: %v", step.Epoch, step.Cohort, err)
	}
	return plan
}

// simulate runs a learner on an environment in process: devices decide with the policy as it comes out of its JSON
// form, their vectors are rounded by the devices' code and the noise of the shuffle protocol is drawn exactly.
func simulate(t testing.TB, cfg learner.Config, env *family.Environment, b budget, seed uint64) outcome {
	t.Helper()
	return run(t, cfg, func(src protocol.Source) ([][]float64, []float64, func(int) float64) {
		arms := env.Draw(src)
		return arms, env.Means(arms), func(arm int) float64 { return env.Reward(arms[arm], src) }
	}, b, seed)
}

// crowd gives the next person: the arms, the expected reward of each, and the reward of the arm played.
type crowd func(src protocol.Source) (arms [][]float64, values []float64, reward func(arm int) float64)

func run(t testing.TB, cfg learner.Config, next crowd, b budget, seed uint64) outcome {
	t.Helper()
	learner, err := learner.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	people := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), 1})
	devices := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), 2})
	var out outcome
	var plan calibrate.Solution
	var records []statistic.Record
	total, survived, decisions := 0, 0, 0
	for {
		step := learner.Next()
		if step.Done {
			out.final = step.Policy
			break
		}
		if step.Round == 0 {
			records = records[:0]
			out.policies = append(out.policies, step.Policy)
			policy := throughJSON(t, step.Policy)
			regret := 0.0
			for range step.Cohort {
				arms, means, reward := next(people)
				decision, err := policy.Decide(arms, devices)
				if err != nil {
					t.Fatal(err)
				}
				best, mean := 0, 0.0
				for i, m := range means {
					mean += m / float64(len(means))
					if m > means[best] {
						best = i
					}
				}
				out.value += means[decision.Arm]
				if policy.Play == glm.PlayDesign && policy.Stages != nil {
					survivors, err := policy.Eliminate(arms)
					if err != nil {
						t.Fatal(err)
					}
					decisions++
					for _, a := range survivors {
						if a == best {
							survived++
						}
					}
				}
				regret += means[best] - means[decision.Arm]
				out.uniform += means[best] - mean
				records = append(records, statistic.Record{Arm: arms[decision.Arm], Reward: reward(decision.Arm),
					Weight: decision.Weight})
			}
			out.regret += regret
			out.last = regret / float64(step.Cohort)
			out.epochs++
			total += step.Cohort
			if b.epsilon > 0 {
				plan = plans{}.of(t, step, b)
				out.messages += float64(plan.Messages) * float64(step.Cohort)
				out.largest = max(out.largest, plan.Messages)
				out.epsilon = math.Max(out.epsilon, plan.Epsilon)
			}
		}
		if err := learner.Absorb(release(t, step, plan, b, records, devices)); err != nil {
			t.Fatal(err)
		}
	}
	out.messages /= float64(total)
	out.value /= float64(total)
	out.survival = float64(survived) / float64(max(decisions, 1))
	return out
}

// release collects the current round of a cohort.
func release(
	t testing.TB, step learner.Step, plan calibrate.Solution, b budget, records []statistic.Record, src protocol.Source,
) []learner.Aggregate {
	t.Helper()
	statistics := step.Statistics[step.Round]
	reports := func(yield func(simulated.Report) bool) {
		report := make(simulated.Report, len(statistics))
		for _, r := range records {
			for i, s := range statistics {
				var err error
				if report[i], err = s.Vector(report[i], r); err != nil {
					t.Fatal(err)
				}
			}
			if !yield(report) {
				return
			}
		}
	}
	var ch simulated.Channel = simulated.Exact{}
	if b.epsilon > 0 {
		first := 0
		for _, round := range step.Statistics[:step.Round] {
			first += len(round)
		}
		shuffle := simulated.Integer{MinCohort: 1}
		for i, s := range statistics {
			planned := plan.Releases[first+i]
			bounds, err := s.Bounds()
			if err != nil {
				t.Fatal(err)
			}
			encoding, err := privacy.EncodingAt(privacy.Vector{Name: string(s.Kind), Lower: bounds.Lower,
				Upper: bounds.Upper, Diameter: bounds.Diameter},
				planned.Shift/bounds.Diameter, planned.Encoding.NoiseBits, planned.Encoding.Bias)
			if err != nil {
				t.Fatal(err)
			}
			shuffle.Encodings = append(shuffle.Encodings, encoding)
		}
		ch = shuffle
	}
	sums, err := ch.Aggregate(reports, src)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]learner.Aggregate, len(sums))
	for i, s := range sums {
		out[i] = learner.Aggregate{Kind: statistics[i].Kind, Sum: s.Sum, Variance: s.Variance, Reports: s.Reports}
	}
	return out
}

func throughJSON(t testing.TB, p glm.Policy) *glm.Policy {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var q glm.Policy
	if err := json.Unmarshal(text, &q); err != nil {
		t.Fatal(err)
	}
	if err := q.Validate(); err != nil {
		t.Fatal(err)
	}
	return &q
}

func environment(
	t testing.TB, kind, name string, reward float64, d, k int, radius float64, seed uint64,
) *family.Environment {
	t.Helper()
	f, err := family.New(name, reward)
	if err != nil {
		t.Fatal(err)
	}
	src := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), 3})
	env, err := family.NewBallEnvironment(f, d, k, radius, src)
	if err != nil {
		t.Fatal(err)
	}
	if kind == "fixed" { // one arm set for every person: contexts do not explore by themselves; greedy play gets stuck
		arms := env.Draw(src)
		env.Draw = func(protocol.Source) [][]float64 { return arms }
	}
	return env
}
