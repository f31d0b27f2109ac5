package simulation

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/fakebroker"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/learn/bandit"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// The simulated deployment: cohorts so small, and noise so little, that a list takes a fraction of a second. Nobody's
// privacy is at stake.
const (
	slots    = 5    // slots of a cohort, and size of a panel
	least    = 3    // fewest reports of a release
	epochs   = 3    // that the learner plans
	capacity = 48   // devices that a host's credential covers
	pool     = 9    // registered devices that a panel is drawn from, at least
	epsilon  = 4.0  // of every limit and plan
	delta    = 1e-3 // of every limit and plan
	// compactAfter is so little that the shuffler's journal begins anew, with a snapshot, in nearly every epoch.
	compactAfter = 1
)

// Result is what came of a list.
type Result struct {
	Violations []string
	Trace      string         // digest of everything that was chosen, in order
	First      string         // the same until the first counts, on which everything later may depend
	Steps      int            // choices
	Faults     map[string]int // that were injected, by kind
	Releases   int            // cohorts that were counted
	Destroyed  int            // cohorts that were not
	Notes      []string       // what happened, for people
}

// World is one run of a list.
type World struct {
	list    List
	rng     *rand.Rand
	broker  *fakebroker.Broker
	gate    *gate
	oracle  *oracle
	keys    keys
	scratch string // folder
	parties map[string]*process
	order   []*process // the same, as they start
	begin   time.Time

	// of the schedule alone
	rules  []*rule
	rough  time.Time // until then everything takes its time
	filled time.Time // until then the broker has no room
	calm   bool      // no more chance faults
	trace  hash.Hash
	first  string // the trace until the first counts
	steps  int
	faults map[string]int
	people int
	talk   bool
	others bool // everybody has another record

	mu         sync.Mutex
	all        []*incarnation
	violations []string
	notes      []string
	decisions  []*decision
	spoken     []byte // what the roles logged
}

// rule is what becomes of the next requests of a name.
type rule struct {
	who, what string
	after     bool
	verdict   fakebroker.Verdict
	delay     time.Duration
	left      int
}

type keys struct {
	analyzer, shuffler, registrar *seal.Identity
	reports, messages             []*seal.HPKEKey // newest first
	auditor                       *seal.HPKEKey
	hosts                         map[string]hostKeys
}

type hostKeys struct {
	identity   *seal.Identity
	credential []byte
}

// Run runs a list. The test is for temporary files and for the source of cryptographic randomness: what the list finds
// is in the result.
func Run(t *testing.T, l List) Result {
	t.Helper()
	return run(t, l, false)
}

// RunOthers is Run of the same people with other records: other arms to decide between, and other rewards.
func RunOthers(t *testing.T, l List) Result {
	t.Helper()
	return run(t, l, true)
}

func run(t *testing.T, l List, others bool) (result Result) {
	t.Helper()
	scratch := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, l.Seed)
		w := newWorld(t, l, scratch)
		w.others = others
		w.play()
		result = w.result()
	})
	return result
}

func newWorld(t *testing.T, l List, scratch string) *World {
	w := &World{
		list: l, rng: rand.New(rand.NewPCG(l.Seed, 1)), scratch: scratch, parties: map[string]*process{},
		begin: time.Now(), trace: sha256.New(), faults: map[string]int{}, talk: testing.Verbose() && talkative(),
	}
	w.gate, w.keys = newGate(w), newKeys(t)
	w.oracle = newOracle(w)
	w.broker = fakebroker.New(fakebroker.Options{
		Gate: w.gate, Streams: bus.ProvisionOptions{AckWait: 5 * time.Second},
	})
	for _, name := range who() {
		p := &process{w: w, name: name, role: roleOf(name), disk: newDisk(), clock: new(clock)}
		w.parties[name] = p
		w.order = append(w.order, p)
	}
	return w
}

func roleOf(name string) bus.Role {
	switch name {
	case "shuffler":
		return bus.Shuffler
	case "analyzer":
		return bus.Analyzer
	}
	return bus.Randomizer
}

func newKeys(t *testing.T) keys {
	k := keys{
		analyzer: testbed.NewIdentity(t), shuffler: testbed.NewIdentity(t), registrar: testbed.NewIdentity(t),
		reports: []*seal.HPKEKey{testbed.NewKey(t)}, messages: []*seal.HPKEKey{testbed.NewKey(t)},
		auditor: testbed.NewKey(t), hosts: map[string]hostKeys{},
	}
	for n := range hosts {
		id := testbed.NewIdentity(t)
		signed, _, err := wire.Sign(&wire.Credential{
			Deployment: testbed.Deployment, HostKey: id.Public(), Devices: capacity,
		}, k.registrar)
		if err != nil {
			t.Fatal(err)
		}
		k.hosts[hostName(n)] = hostKeys{id, signed}
	}
	return k
}

func (w *World) learner() learner.Config {
	profile := glm.Practical
	if w.list.Paper {
		profile = glm.Paper
	}
	if w.list.Program {
		profile = glm.LinUCB
	}
	c := testbed.Learner(profile, slots)
	// The joint certificate of what a device reports is computed by every process for every announcement. It is
	// cheapest where weights are constant and scores small.
	c.Family, c.Radius = family.NameLinear, 1e-3
	c.Dimension, c.Horizon, c.Epsilon, c.Delta, c.MinCohort = 1, epochs*slots, epsilon, delta, least
	if w.list.Paper {
		c.Paper.Warmup, c.Paper.Second, c.Paper.Rounds = slots, slots, 2
	}
	if w.list.Program {
		c.Program = &learner.ProgramConfig{Options: map[string]float64{bandit.First: slots, bandit.Growth: 1}}
	}
	if w.list.Panel {
		c.Practical.Panel, c.Practical.Decisions = slots, 2
	}
	return c
}

func (w *World) terms() plan.Terms {
	t := plan.Terms{Channel: w.list.Channel, Epsilon: epsilon, Delta: delta, DropOut: 0.4, MinCohort: least}
	if t.Channel == plan.Shuffle { // fewer messages
		t.MaxShift, t.VarianceRatio = 2, 64
	}
	if w.list.ServerNoise {
		t.ServerNoise = 0.5
	}
	if w.list.Panel {
		t.Registered, t.Decisions, t.Records = pool, 2, w.records()
	}
	return t
}

// records is in how many epochs a device may report.
func (w *World) records() int {
	if w.list.Panel {
		return 2
	}
	return 1
}

func (w *World) timing() plan.Timing {
	t := testbed.Timing()
	t.Enrolment = 20 * time.Second
	t.Grace = 8 * time.Second // far above what the shuffler takes for an ordinary gap between two looks at its clock
	if w.list.Panel {
		t.Enrolment = 0
	}
	return t
}

// since is the time of the simulation.
func (w *World) since() time.Duration { return time.Since(w.begin) }

// note keeps what people who look at a failing list want to know.
func (w *World) note(format string, v ...any) {
	line := fmt.Sprintf("%8.3fs ", w.since().Seconds()) + fmt.Sprintf(format, v...)
	if w.talk {
		fmt.Println(line)
	}
	w.notes = append(w.notes, line)
}

// noted is note for those who do not hold the lock.
func (w *World) noted(format string, v ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note(format, v...)
}

// violated notes that something happened that must not.
func (w *World) violated(what, format string, v ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := what + ": " + fmt.Sprintf(format, v...)
	w.note("VIOLATION %s", text)
	w.violations = append(w.violations, text)
}

// digest is that of everything that was chosen so far.
func (w *World) digest() string { return hex.EncodeToString(w.trace.Sum(nil)[:8]) }

func (w *World) result() Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Result{
		Violations: w.violations, Trace: w.digest(), First: cmp.Or(w.first, w.digest()), Steps: w.steps,
		Faults:   w.faults,
		Releases: w.oracle.released, Destroyed: w.oracle.destroyed, Notes: w.notes,
	}
}
