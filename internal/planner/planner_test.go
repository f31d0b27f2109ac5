package planner

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

var update = flag.Bool("update", false, "rewrite the golden files of testdata")

// vectors asks for generic releases in one cohort.
func vectors(dim, cohort, releases int, variance float64) Options {
	return Options{Cohorts: []int{cohort}, Dimension: dim, Releases: releases, SealSeconds: 30e-6,
		Terms: plan.Terms{Epsilon: 1, Delta: 1e-6, VarianceRatio: variance}}
}

// The planner finds the message counts that the certificate makes possible.
func TestPlansReachTheKnownMessageCounts(t *testing.T) {
	for _, c := range []struct {
		dim, releases int
		variance      float64
		most          int
	}{{15, 1, 2, 9}, {15, 1, 1.2, 19}, {5, 32, 2, 4}, {5, 32, 1.2, 9}} {
		r, err := Run(vectors(c.dim, 2000, c.releases, c.variance))
		if err != nil {
			t.Fatal(err)
		}
		if r.MessagesPerCoordinate > c.most || r.VarianceRatio > c.variance || !(r.Epsilon <= 1) ||
			r.MessagesPerUser != r.MessagesPerCoordinate*c.dim*c.releases {
			t.Errorf("%+v: %d messages per coordinate, %d per user, variance ratio %v, epsilon %v", c,
				r.MessagesPerCoordinate, r.MessagesPerUser, r.VarianceRatio, r.Epsilon)
		}
	}
}

// byDefault is the plan of the default deployment, made once, which nobody may change.
func byDefault(t *testing.T) *Result {
	t.Helper()
	r, err := planDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var planDefaults = sync.OnceValues(func() (*Result, error) {
	o := defaults()
	o.Machine = fixed()
	return Run(o)
})

// The terminal's table of the default deployment and of generic vectors.
func TestTablesAreTheGoldenOnes(t *testing.T) {
	vectors, err := Run(vectors(5, 2000, 32, 2))
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]*Result{"default": byDefault(t), "vectors": vectors} {
		var b bytes.Buffer
		if err := r.WriteTable(&b); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".txt", b.Bytes())
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s has changed (go test ./internal/planner -update rewrites it):\n%s", path, got)
	}
}

// The JSON form has the keys that programs rely on, all of them finite numbers of the right kind, and reads back as it
// was.
func TestJSONHasItsKeysAndReadsBack(t *testing.T) {
	r := byDefault(t)
	var b bytes.Buffer
	if err := r.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b.Bytes(), &m); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"epsilon", "delta", "mu", "messages_per_user", "messages_per_coordinate", "noise_bits",
		"scale", "bias", "variance_ratio", "bytes_per_user", "cpu_seconds_per_user"} {
		if v, ok := m[key].(float64); !ok || !(v > 0) {
			t.Errorf("%s is %v", key, m[key])
		}
	}
	for key, kind := range map[string]reflect.Kind{"cohorts": reflect.Slice, "frontier": reflect.Slice,
		"first_cohort": reflect.Map, "unused_budget": reflect.Float64} {
		if reflect.ValueOf(m[key]).Kind() != kind {
			t.Errorf("%s is %T", key, m[key])
		}
	}
	cohort := m["cohorts"].([]any)[0].(map[string]any)
	for _, key := range []string{"size", "minimum", "honest", "epsilon", "expected_epsilon", "messages_per_user",
		"releases", "unused_budget"} {
		if _, ok := cohort[key]; !ok {
			t.Errorf("cohorts have no %s", key)
		}
	}
	release := cohort["releases"].([]any)[0].(map[string]any)
	for _, key := range []string{"statistic", "deviation", "central_deviation", "local_deviation", "variance_ratio",
		"noise_bits", "scale", "bias", "limit"} {
		if _, ok := release[key]; !ok {
			t.Errorf("releases have no %s", key)
		}
	}
	var back Result
	if err := json.Unmarshal(b.Bytes(), &back); err != nil || !reflect.DeepEqual(&back, r) {
		t.Errorf("the JSON form does not read back as it was: %v", err)
	}
}

// A plan keeps to the options, its sums are right, and a note says what it leaves unused.
func TestResultsKeepToTheOptions(t *testing.T) {
	if testing.Short() { // nothing of it runs at the same time as anything else
		t.Skip("without a second goroutine")
	}
	random := rand.New(rand.NewPCG(5, 6))
	found := 0
	for range 10 {
		o := defaults()
		o.Epsilon, o.DropOut, o.Dishonest = 0.3+3*random.Float64(), 0.2*random.Float64(), 0.2*random.Float64()
		o.Dimension = 1 + random.IntN(5)
		switch random.IntN(4) {
		case 0:
			o.MaxMessages = 60 + random.IntN(300)
		case 1:
			o.MaxMessages, o.Bytes = 0, 4000+random.IntN(20000)
		case 2:
			o.MaxMessages, o.VarianceRatio, o.MaxShift = 0, 1.6+3*random.Float64(), 0
		case 3:
			o.Releases, o.VarianceRatio, o.MaxMessages, o.MaxShift = 1+random.IntN(5), 2+random.Float64(), 0, 0
		}
		o.Cohorts = []int{100 + random.IntN(3000)}
		if random.IntN(2) == 0 {
			o.MinCohort = o.Cohorts[0] - random.IntN(o.Cohorts[0]/8)
		}
		r, err := Run(o)
		var infeasible *Infeasible
		if errors.As(err, &infeasible) {
			if infeasible.Reason == "" || infeasible.Remedy == "" || !strings.HasPrefix(infeasible.Option, "--") {
				t.Errorf("%+v: %+v", o, infeasible)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%+v: %v", o, err)
		}
		found++
		c := r.Cohorts[0]
		if !(c.Epsilon <= o.Epsilon) || !(c.ExpectedEpsilon <= c.Epsilon) || c.Honest > c.Minimum ||
			c.Minimum > c.Size || r.Users != c.Size {
			t.Errorf("%+v: %+v", o, c)
		}
		if o.MaxMessages > 0 && c.MessagesPerUser > o.MaxMessages || o.Bytes > 0 && c.BytesPerUser > o.Bytes {
			t.Errorf("%+v: %d messages, %d bytes", o, c.MessagesPerUser, c.BytesPerUser)
		}
		messages, reports := 0, 0
		for _, rel := range c.Releases {
			messages += rel.Times * rel.MessagesPerUser
			reports += rel.Times
			if o.VarianceRatio > 0 && rel.VarianceRatio > o.VarianceRatio*(1+1e-9) ||
				math.Abs(rel.VarianceRatio-math.Pow(rel.Deviation/rel.CentralDeviation, 2)) > 1e-9*rel.VarianceRatio {
				t.Errorf("%+v: %+v", o, rel)
			}
			if math.Abs(rel.LocalDeviation/rel.CentralDeviation-math.Sqrt(float64(c.Size))) > 1e-9 {
				t.Errorf("%+v: local %v, central %v", o, rel.LocalDeviation, rel.CentralDeviation)
			}
		}
		size := wire.EnvelopeSize(messages * seal.BitSize)
		if o.Releases > 0 {
			size = reports * wire.EnvelopeSize((messages/reports)*seal.BitSize)
		}
		if messages != c.MessagesPerUser || messages != r.MessagesPerUser || size != c.BytesPerUser {
			t.Errorf("%+v: %d messages, %d bytes, the releases have %d and %d", o, c.MessagesPerUser, c.BytesPerUser,
				messages, size)
		}
		if c.UnusedBudget > 0.01 && !strings.Contains(strings.Join(r.notes(), "\n"), "unused") {
			t.Errorf("%+v: %v of the budget is unused and no note says so", o, c.UnusedBudget)
		}
		fewer := float64(c.Size-c.Minimum) < math.Floor(float64(c.Size)*o.DropOut)
		if fewer != strings.Contains(strings.Join(r.notes(), "\n"), "people may drop out: --min-cohort") {
			t.Errorf("%+v: %d of %d reports are needed, of which the notes say otherwise", o, c.Minimum, c.Size)
		}
		for _, f := range r.Frontier {
			for i := 1; i < len(f.Points); i++ {
				if f.Points[i].MessagesPerUser >= f.Points[i-1].MessagesPerUser {
					t.Errorf("%+v: frontier %+v", o, f.Points)
				}
			}
		}
	}
	if found < 6 {
		t.Errorf("only %d of 10 requests have a plan", found)
	}
}

// A refusal names the option that binds, in the words of the command line, and its remedy works.
func TestInfeasibleOptionsNameARemedyThatWorks(t *testing.T) {
	if testing.Short() { // nothing of it runs at the same time as anything else
		t.Skip("without a second goroutine")
	}
	for name, c := range map[string]struct {
		change func(*Options)
		option string
		follow func(*Options, *Infeasible)
	}{
		"messages": {func(o *Options) { o.MaxMessages = 20 }, "--messages",
			func(o *Options, _ *Infeasible) { o.MaxMessages = 40 }},
		"bytes": {func(o *Options) { o.MaxMessages, o.Bytes = 0, 2327 }, "--bytes",
			func(o *Options, _ *Infeasible) { o.Bytes = 2328 }},
		"few bytes": {func(o *Options) { o.MaxMessages, o.Bytes = 0, 10 }, "--bytes",
			func(o *Options, _ *Infeasible) { o.Bytes = 0 }},
		"variance with messages": {func(o *Options) { o.MaxMessages, o.VarianceRatio, o.MaxShift = 60, 1.3, 0 },
			"--messages", func(o *Options, e *Infeasible) { o.MaxMessages = 240 }},
		"variance": {func(o *Options) { o.MaxMessages, o.VarianceRatio, o.MaxShift = 0, 1.01, 0 },
			"--variance", func(o *Options, _ *Infeasible) { o.VarianceRatio = 1.1 }},
		"variance of 1": {func(o *Options) { o.MaxMessages, o.VarianceRatio = 0, 1 }, "--variance",
			func(o *Options, _ *Infeasible) { o.VarianceRatio = 1.5 }},
		"honest": {func(o *Options) { o.Dishonest = 0.96 },
			"--cohort with --drop-out, --honest and the minimum cohort", func(o *Options,
				_ *Infeasible) {
				o.Dishonest = 0.5
			}},
		"cohort": {func(o *Options) { o.Cohorts = []int{40} },
			"--cohort with --drop-out, --honest and the minimum cohort", func(o *Options,
				_ *Infeasible) {
				o.MinCohort = 38
			}},
		"mean": {func(o *Options) { o.MaxMessages, o.MeanMessages = 0, 20 }, "--mean-messages",
			func(o *Options, _ *Infeasible) { o.MeanMessages = 60 }},
		"noise bits": {func(o *Options) {
			o.MaxMessages, o.NoiseBits, o.Epsilon, o.Delta, o.Cohorts, o.MinCohort = 0, 1, 0.1, 1e-12, []int{5}, 1
		}, "--noise-bits", func(o *Options, _ *Infeasible) { o.NoiseBits = 500 }},
	} {
		o := defaults()
		o.Cohorts = []int{300}
		c.change(&o)
		_, err := Run(o)
		var infeasible *Infeasible
		if !errors.As(err, &infeasible) || infeasible.Option != c.option {
			t.Errorf("%s: %v", name, err)
			continue
		}
		c.follow(&o, infeasible)
		if _, err := Run(o); err != nil {
			t.Errorf("%s: still no plan after %q: %v", name, infeasible.Remedy, err)
		}
	}
}

func TestOptionsOutOfRangeAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"dimension":   func(o *Options) { o.Dimension = 0 },
		"users":       func(o *Options) { o.Users = 0 },
		"epsilon":     func(o *Options) { o.Epsilon = math.NaN() },
		"delta":       func(o *Options) { o.Delta = 1 },
		"drop-out":    func(o *Options) { o.DropOut = 1 },
		"dishonest":   func(o *Options) { o.Dishonest = -0.1 },
		"messages":    func(o *Options) { o.MaxMessages = -2 },
		"variance":    func(o *Options) { o.VarianceRatio = math.Inf(1) },
		"cap":         func(o *Options) { o.MaxShift = math.NaN() },
		"share":       func(o *Options) { o.HessianShare = 1 },
		"norm":        func(o *Options) { o.ThetaNorm = 51 },
		"family":      func(o *Options) { o.Family = "cauchy" },
		"cohort":      func(o *Options) { o.Cohorts = []int{100, 0} },
		"releases":    func(o *Options) { o.Releases = 1 << 20 },
		"two budgets": func(o *Options) { o.MeanMessages = 50 }, "mean of vectors": func(o *Options) {
			o.MaxMessages,
				o.MeanMessages, o.Releases = 0, 50, 2
		},
	} {
		o := defaults()
		change(&o)
		if _, err := Run(o); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The default limit on messages follows the dimension: every dimension has a plan, with about the noise of 5
// dimensions. What hosts would refuse is said.
func TestEveryDimensionHasAPlan(t *testing.T) {
	dimensions := []int{1, 20} // the golden one is of 5
	if testing.Short() {       // nothing of it runs at the same time as anything else
		dimensions = []int{1}
	}
	if os.Getenv("RIFFLE_LONG") != "" {
		dimensions = append(dimensions, 2, 3, 5, 8, 10, 11, 15, 30, 36)
	}
	for _, d := range dimensions {
		o := defaults()
		o.Dimension = d
		if d == 20 { // of the plans above only this one's is more than a host with half the limit sends
			o.HostMessages = 1500
		}
		r, err := Run(o)
		if err != nil {
			t.Errorf("dimension %d: %v", d, err)
			continue
		}
		numbers, worst := d*(d+3)/2, 0.0
		for _, c := range r.Cohorts {
			for _, rel := range c.Releases {
				worst = max(worst, rel.VarianceRatio)
			}
		}
		t.Logf("%d dimensions, %d numbers, first cohort %d: %d messages, %d bytes, noise ratio at most %.2f", d,
			numbers, r.FirstCohort.Size, r.MessagesPerUser, r.BytesPerUser, worst)
		if r.MessagesPerUser > r.MessageLimit || r.MessageLimit != max(150, numbers*15/2) || worst > 1.45 ||
			!(r.Epsilon <= 1) {
			t.Errorf("dimension %d: %d of %d messages, noise ratio %v, epsilon %v", d, r.MessagesPerUser,
				r.MessageLimit, worst, r.Epsilon)
		}
		refused := strings.Contains(strings.Join(r.notes(), " "), "Hosts refuse this plan")
		if want := r.MessagesPerUser > o.HostMessages; refused != want {
			t.Errorf("dimension %d: %d messages, hosts send %d; said so: %v", d, r.MessagesPerUser, o.HostMessages,
				refused)
		}
	}
}

// The picture of a frontier can be drawn, and the time of a bit message is a time.
func TestFrontierIsDrawnAndSealingIsMeasured(t *testing.T) {
	r, err := Run(vectors(5, 500, 2, 2))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Chart().PNG(); err != nil {
		t.Error(err)
	}
	seconds, err := MeasureSeal()
	if err != nil || !(seconds > 1e-6 && seconds < 0.1) {
		t.Errorf("a bit message takes %v s, %v", seconds, err)
	}
}
