package composetest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The deployment of the table of faults: small cohorts with few numbers, so that an epoch takes seconds, and loose
// limits, which so few people need. Plans of this size are for tests only.
const (
	faultCohort       = 24
	faultAnalyzerYAML = `
learner: {family: logistic, dimension: 2, radius: 1, horizon: 12000, first_cohort: 24, growth: 1}
privacy: {epsilon: 6, delta: 1e-4, drop_out: 0.2, max_messages: 40, min_cohort: 16}
timing: {reward_window: 1s, jitter: 1s, grace: 30s}
`
	faultRandomizerYAML = `limits: {epsilon: 6, delta: 1e-4, min_cohort: 16, max_messages: 100000}` + "\n"
	faultShufflerYAML   = `min_cohort: 16` + "\n"
)

// How long the parts of a case take.
const (
	// lasts is how long a fault lasts: longer than a role needs to say that the broker does not answer and than a host
	// waits for an answer to an enrolment, and shorter than a cohort's grace.
	lasts = 7 * time.Second
	// off is how long a process that was killed stays away.
	off = 2 * time.Second
	// faultPatience is after which time without a next epoch a deployment counts as stuck: the grace, and as much again
	// for a busy machine.
	faultPatience = 75 * time.Second
	// saysWithin is how long a role that is cut off has to say that it is not ready.
	saysWithin = 20 * time.Second
	// refuses is after how long a role that is not ready, after a loss, counts as one that does not go on.
	refuses = 15 * time.Second
	// restoreNewest is what a shuffler says of a state that lacks the cohort's enrolments.
	restoreNewest = "restore the newest copy"
	// combined is how many pairs of faults a run draws.
	combined = 12
)

// lanes is how many deployments share the cases: they wait more than they work.
const lanes = 4

// replaced is how many deployments of one lane may fail before it gives up.
const replaced = 6

// point is where in an epoch a fault comes.
type point struct {
	Step  string `json:"step"`
	After bool   `json:"after"` // else before what the step makes durable
	role  string // whose step it is
	stop  tapStop
}

func (p point) String() string {
	if p.After {
		return "after " + p.Step
	}
	return "before " + p.Step
}

// points are in the order of an epoch. What is durable after a step is what the comment says.
var points = []point{
	// the slot, in the shuffler's journal
	{"enrol", false, "host1", tapStop{Subject: "riffle.v1.enrol", Nth: 4}},
	{"enrol", true, "host1", tapStop{Subject: "riffle.v1.enrol", Nth: 4, Answered: true}},
	// the report, at the broker
	{"report", false, "host1", tapStop{Subject: "riffle.v1.report.", Nth: 3}},
	{"report", true, "host1", tapStop{Subject: "riffle.v1.report.", Nth: 3, Answered: true}},
	// the membership, in the shuffler's journal: before, the last report is on its way to the shuffler; after, the
	// first chunk is on its way to the broker
	{"commit", false, "shuffler", tapStop{Subject: "riffle.v1.report.", Nth: faultCohort, ToRole: true}},
	{"commit", true, "shuffler", tapStop{Subject: "riffle.v1.mixed."}},
	// the chunk, at the broker; before it is after the commit
	{"chunk", true, "shuffler", tapStop{Subject: "riffle.v1.mixed.", Answered: true}},
	// before, the chunk is on its way to the analyzer; what the analyzer has taken in is in its memory alone
	{"receive", false, "analyzer", tapStop{Subject: "riffle.v1.mixed.", ToRole: true}},
	// the manifest, at the broker
	{"manifest", false, "shuffler", tapStop{Subject: "riffle.v1.manifest."}},
	{"manifest", true, "shuffler", tapStop{Subject: "riffle.v1.manifest.", Answered: true}},
	// the counts, in the analyzer's log on its disk: after, they are on their way to the broker
	{"count", false, "analyzer", tapStop{Subject: "riffle.v1.manifest.", ToRole: true}},
	{"count", true, "analyzer", tapStop{Subject: "riffle.v1.audit.analyzer.counts."}},
	// the counts, at the broker; before it is after the count
	{"log", true, "analyzer", tapStop{Subject: "riffle.v1.audit.analyzer.counts.", Answered: true}},
	// the next policy, at the broker
	{"announce", false, "analyzer", tapStop{Subject: "$KV.announcements."}},
	{"announce", true, "analyzer", tapStop{Subject: "$KV.announcements.", Answered: true}},
}

// faultCase is one cell of the table: a fault at a point, and in a combination a second one.
type faultCase struct {
	Fault  string `json:"fault"`
	At     point  `json:"at"`
	Second string `json:"second,omitempty"`

	Outcome    string   `json:"outcome"`
	Said       []string `json:"said,omitempty"` // who said that they are not ready, and why
	Violations []string `json:"violations,omitempty"`
	Notes      []string `json:"notes,omitempty"`
	Enrolled   int      `json:"enrolled"`
	Reports    int      `json:"reports"`
	Seconds    float64  `json:"seconds"`

	first, then fault
	lane        int
}

// forgets reports whether a host goes on with an older state. It stops for good once it meets what it no longer knows,
// as it has to. Its newer state is of no use either after it went on with the older one, so the deployment takes no
// other case.
func (c *faultCase) forgets() bool { return c.first.older && c.At.role == "host1" }

// mayLack reports whether reports may be lost: a host that forgot its promises does not keep them, and what comes late
// is not in the release.
func (c *faultCase) mayLack() bool { return c.first.mayEnd || c.first.late || c.forgets() }

// mayStop reports whether the deployment may stop for good, if it says why.
func (c *faultCase) mayStop() bool { return c.first.mayEnd || c.forgets() }

func (c *faultCase) name() string {
	if c.Second != "" {
		return c.Fault + " and " + c.Second + ", " + c.At.String()
	}
	return c.Fault + ", " + c.At.String()
}

// TestFaults puts faults to a deployment at each step of an epoch and holds what comes of them against what every
// device sent. See deploy/faults.
func TestFaults(t *testing.T) {
	if os.Getenv("RIFFLE_FAULTS") == "" {
		t.Skip("RIFFLE_FAULTS=1 runs it: see deploy/faults")
	}
	within, err := time.ParseDuration(os.Getenv("RIFFLE_FAULTS_WITHIN"))
	if err != nil {
		t.Fatalf("RIFFLE_FAULTS_WITHIN: %v", err)
	}
	seed, err := strconv.ParseUint(os.Getenv("RIFFLE_FAULTS_SEED"), 10, 64)
	if err != nil {
		t.Fatalf("RIFFLE_FAULTS_SEED: %v", err)
	}
	begin := time.Now()
	all := faultCases(seed)
	if len(all) == 0 {
		t.Fatal("no case has such a name")
	}
	if path := os.Getenv("RIFFLE_FAULTS_RESUME"); path != "" {
		resume(t, path, all)
	}
	todo := make(chan *faultCase)
	go func() {
		defer close(todo)
		end := time.After(within)
		for _, c := range inDrawnOrder(all, seed) {
			if c.Outcome != "" {
				continue // of an earlier run
			}
			select {
			case todo <- c:
			case <-end:
				return
			}
		}
	}()
	var at sync.WaitGroup
	for lane := range min(lanes, len(all)) {
		at.Go(func() {
			t.Run(fmt.Sprintf("deployment %d", lane), func(t *testing.T) { faultLane(t, lane, todo) })
		})
	}
	at.Wait()
	violations, missing := 0, 0
	for _, c := range all {
		if c.Outcome == "" && len(c.Violations) == 0 {
			missing++
			continue
		}
		for _, v := range c.Violations {
			t.Errorf("%s: %s", c.name(), v)
			violations++
		}
	}
	t.Logf("seed %d: %d cases in %.0f s, %d not run, %d violations", seed, len(all), time.Since(begin).Seconds(),
		missing, violations)
	if missing > 0 {
		t.Errorf("%d cases were not run", missing)
	}
	if path := os.Getenv("RIFFLE_FAULTS_JSON"); path != "" {
		text, err := json.MarshalIndent(map[string]any{"seed": seed, "cases": all, "violations": violations,
			"not_run": missing, "seconds": time.Since(begin).Seconds()}, "", "  ")
		if err == nil {
			err = os.WriteFile(path, append(text, '\n'), 0o644)
		}
		if err != nil {
			t.Error(err)
		}
	}
	if path := os.Getenv("RIFFLE_FAULTS_DOCS"); path != "" {
		if err := writeFaults(path, all, seed); err != nil {
			t.Error(err)
		}
	}
}

// faultCases lists every fault at every point, and then the pairs that the seed draws. RIFFLE_FAULTS_ONLY has parts
// of names, separated by semicolons, of which a case's name must contain one.
func faultCases(seed uint64) (all []*faultCase) {
	for _, f := range faults {
		for _, p := range points {
			if f.on == nil || f.on(p) {
				all = append(all, &faultCase{Fault: f.name, At: p, first: f})
			}
		}
	}
	random := rand.New(rand.NewPCG(seed, 0))
	pairs := slices.DeleteFunc(slices.Clone(faults), func(f fault) bool { return f.alone })
	for range combined {
		p := points[random.IntN(len(points))]
		var two []fault
		for len(two) < 2 {
			f := pairs[random.IntN(len(pairs))]
			if (f.on == nil || f.on(p)) && (len(two) == 0 || two[0].name != f.name && two[0].ends != f.ends) {
				two = append(two, f)
			}
		}
		all = append(all, &faultCase{Fault: two[0].name, Second: two[1].name, At: p, first: two[0], then: two[1]})
	}
	words := os.Getenv("RIFFLE_FAULTS_ONLY")
	return slices.DeleteFunc(all, func(c *faultCase) bool {
		for word := range strings.SplitSeq(words, ";") {
			if strings.Contains(c.name(), word) {
				return false
			}
		}
		return true
	})
}

// resume takes over what came of the cases of an earlier run that its time was long enough for.
func resume(t *testing.T, path string, all []*faultCase) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var earlier struct{ Cases []*faultCase }
	if err := json.Unmarshal(text, &earlier); err != nil {
		t.Fatal(err)
	}
	done := map[string]*faultCase{}
	for _, c := range earlier.Cases {
		done[c.name()] = c
	}
	for _, c := range all {
		if before := done[c.name()]; before != nil && before.Outcome != "" {
			before.At, before.first, before.then = c.At, c.first, c.then
			*c = *before
		}
	}
}

// inDrawnOrder draws an order from the seed, so that a run whose time is over has something of everything. Those
// cases come last that may cost the deployment.
func inDrawnOrder(all []*faultCase, seed uint64) []*faultCase {
	all = slices.Clone(all)
	random := rand.New(rand.NewPCG(seed, 1))
	random.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	slices.SortStableFunc(all, func(a, b *faultCase) int { return last(a) - last(b) })
	return all
}

func last(c *faultCase) int {
	if c.first.mayEnd || c.forgets() {
		return 1
	}
	return 0
}

// faultLane runs cases on a deployment, one after another. A deployment that is stuck is replaced.
func faultLane(t *testing.T, lane int, todo <-chan *faultCase) {
	for n := 0; ; n++ {
		done := false
		ok := t.Run(strconv.Itoa(n), func(t *testing.T) {
			x := newFaulty(t, fmt.Sprintf("f%d%d", lane, n))
			defer x.auditor.Close()
			for c := range todo {
				c.lane = lane
				begin := time.Now()
				stuck := x.run(c)
				c.Seconds = time.Since(begin).Seconds()
				t.Logf("%s: %s; %d of %d; said: %q; violations: %q; notes: %q; %.0f s", c.name(), c.Outcome, c.Reports,
					c.Enrolled, c.Said, c.Violations, c.Notes, c.Seconds)
				if len(c.Violations) > 0 {
					x.explain()
				}
				if stuck {
					return
				}
				if c.forgets() {
					x.mustAudit(t)
					return
				}
			}
			done = true
			x.mustAudit(t)
		})
		if done || !ok && n >= replaced {
			return
		}
	}
}
