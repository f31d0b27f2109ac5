package composetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// The trial's deployment: many cohorts of one size, so that each case has its own and the next one shows that nothing
// is stuck.
const (
	trialCohort       = 100
	trialRewardWindow = 3 * time.Second
	trialJitter       = time.Second
	trialGrace        = 30 * time.Second
	trialAnalyzerYAML = `
learner: {family: logistic, dimension: 5, radius: 3, horizon: 6000, first_cohort: 100, growth: 1}
privacy: {epsilon: 1, delta: 1e-6, drop_out: 0.1, max_messages: 0, min_cohort: 50}
timing: {reward_window: 3s, jitter: 1s, grace: 30s}
`
)

// How long things may take before they count as stuck, and before a role that is not ready must have said so.
const (
	trialPatience = 100 * time.Second // a whole cohort, its deadline included
	sayWithin     = 6 * time.Second   // to say that one is not ready: a few looks at the broker, a second apart each
	metricsWithin = time.Second
)

// bad is one case of the trial.
type bad struct {
	name    string
	expects string // in one sentence, for the table
	run     func(*trial) error
}

// saying is that a role said that it is not ready.
type saying struct {
	who   string
	after time.Duration // from the trouble on
	why   string
}

// row is what came of a case.
type row struct {
	name, expects      string
	enrolled, reported int
	outcome            string
	next               string // the cohort after it
	notReady           []saying
	faults             []string
	notes              []string
	metrics            time.Duration
	began              time.Time
	took               time.Duration
}

// trial is a deployment that bad days happen to.
type trial struct {
	*stack
	ctx     context.Context
	helper  string // image of the volume helper
	crowd   *crowd
	auditor *bus.Conn
	bundle  keyring.Bundle
	watch   *watch
	row     *row
	epoch   uint64 // of the case's cohort
	cases   int
}

func (x *trial) fault(format string, v ...any) {
	x.row.faults = append(x.row.faults, fmt.Sprintf(format, v...))
}
func (x *trial) note(format string, v ...any) {
	x.row.notes = append(x.row.notes, fmt.Sprintf(format, v...))
}

// TestTrial puts a deployment through bad days and prints a table of what came of them. Every case must keep its cohort
// where that is possible, leave nothing stuck, and nothing may say that it is ready that is not.
func TestTrial(t *testing.T) {
	if os.Getenv("RIFFLE_TRIAL") == "" {
		t.Skip("RIFFLE_TRIAL=1 runs it: see deploy/trial")
	}
	begin := time.Now()
	var rows []*row
	rows = append(rows, outing(t, "t", "", bads)...)
	rows = append(rows, outing(t, "d", diskYAML, []bad{fullDisk})...)
	for _, r := range rows {
		for _, f := range r.faults {
			t.Errorf("%s: %s", r.name, f)
		}
	}
	t.Logf("%d cases in %.0f s", len(rows), time.Since(begin).Seconds())
	if err := report(rows, time.Since(begin)); err != nil {
		t.Error(err)
	}
}

// only reports whether a case is asked for: RIFFLE_TRIAL_CASES has words of names, separated by commas.
func only(name string) bool {
	words := os.Getenv("RIFFLE_TRIAL_CASES")
	for word := range strings.SplitSeq(words, ",") {
		if word == "" || strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// outing brings a deployment up and runs cases on it, one after another. One that leaves it stuck gets the next case a
// new deployment.
func outing(t *testing.T, name, override string, cases []bad) (rows []*row) {
	var x *trial
	for i, c := range cases {
		if !only(c.name) {
			continue
		}
		if x == nil {
			x = newTrial(t, fmt.Sprintf("%s%d", name, i), override)
		}
		r := x.try(c)
		rows = append(rows, r)
		t.Log(r.line())
		if r.next == "" {
			x.over()
			x = nil
		}
	}
	if x != nil {
		x.over()
	}
	return rows
}

func newTrial(t *testing.T, name, override string) *trial {
	return newTrialOf(t, name, override, map[string]string{"analyzer.yaml": trialAnalyzerYAML,
		"randomizer.yaml": randomizerYAML, "shuffler.yaml": shufflerYAML})
}

// newTrialOf brings a deployment up with these configuration files and a further compose file, in which UID and HELPER
// stand for the user in the containers and for the image of the commands that only tests need.
func newTrialOf(t *testing.T, name, override string, config map[string]string) *trial {
	x := &trial{stack: newStack(t, name), ctx: t.Context()}
	x.helper = x.project + "-volume"
	for file, text := range config {
		if err := os.WriteFile(filepath.Join(x.dir, "config", file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	x.env = append(x.env, "RIFFLE_HOSTS=host1=20000 host2=20000")
	if override != "" {
		path := filepath.Join(x.dir, "override.yaml")
		words := strings.NewReplacer("UID", user(), "HELPER", x.helper)
		if err := os.WriteFile(path, []byte(words.Replace(override)), 0o644); err != nil {
			t.Fatal(err)
		}
		x.env = append(x.env, "RIFFLE_COMPOSE_EXTRA="+path)
	}
	folder := t.TempDir()
	x.must("sh", "-c",
		`cd "$0" && CGO_ENABLED=0 go build -o "$1/" ./deploy/composetest/volume ./deploy/composetest/tap`,
		x.root, folder)
	if err := os.WriteFile(filepath.Join(folder, "Dockerfile"),
		[]byte("FROM scratch\nCOPY volume tap /\nENTRYPOINT [\"/volume\"]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	x.must("docker", "build", "-q", "-t", x.helper, folder)
	t.Cleanup(func() { x.must("docker", "image", "rm", "-f", x.helper) })
	x.up()
	x.crowd = newCrowd(t, x.apis)
	x.crowd.borne = true
	var err error
	if x.bundle, err = keyring.LoadBundle(x.keys()); err != nil {
		t.Fatal(err)
	}
	if x.auditor, err = x.connect(x.ctx, x.broker(), bus.Auditor); err != nil {
		t.Fatal(err)
	}
	return x
}

// user is the number of the user in the containers.
func user() string {
	uid := os.Getuid()
	if uid == 0 {
		uid = 65532
	}
	return strconv.Itoa(uid)
}

func (x *trial) over() { x.auditor.Close() }

// try runs one case in a cohort of its own, then brings one more cohort through.
func (x *trial) try(c bad) *row {
	r := &row{name: c.name, expects: c.expects, began: time.Now()}
	x.row, x.watch = r, x.stack.watch()
	x.cases++
	x.crowd.name = fmt.Sprintf("case%d", x.cases)
	restarts := x.restarts()
	now, err := x.next(x.epoch)
	if err != nil {
		x.fault("no cohort to begin with: %v", err)
	} else {
		x.epoch = now.Epoch
		if err := c.run(x); err != nil {
			x.fault("%v", err)
		}
		if r.outcome == "destroyed" {
			x.fault("the cohort was destroyed, with %d of %d reports at the broker", r.reported, r.enrolled)
		}
		x.after()
	}
	for service, n := range x.restarts() {
		if n > restarts[service] {
			x.note("%s was restarted %d times by itself", service, n-restarts[service])
		}
	}
	x.watch.stop()
	if r.metrics = x.watch.slowest; r.metrics > metricsWithin {
		x.note("/metrics of %s took %.1f s", x.watch.slow, r.metrics.Seconds())
	}
	if len(r.faults) > 0 {
		x.explain()
	}
	r.took = time.Since(r.began)
	return r
}

// explain shows the last lines of every role's log.
func (x *trial) explain() {
	out, _ := x.stack.run("sh", "-c",
		`for c in $(docker ps -aq --filter label=com.docker.compose.project="$0"); do
			docker inspect -f '== {{.Name}} {{.State.Status}} {{if .State.Health}}{{.State.Health.Status}}{{end}}' $c
			docker logs --tail 60 $c 2>&1 | grep -v totals | tail -8 | cut -c 1-400
		done`, x.project)
	x.t.Log(out)
}

// next waits for a cohort that takes people in.
func (x *trial) next(after uint64) (status, error) {
	ctx, cancel := context.WithTimeout(x.ctx, trialPatience)
	defer cancel()
	return x.crowd.next(ctx, after)
}

// fill brings people until the case's cohort is full. atHalf runs meanwhile, once half of it is.
func (x *trial) fill(atHalf func()) error {
	ctx, cancel := context.WithTimeout(x.ctx, trialPatience)
	defer cancel()
	clear(x.crowd.missed)
	return x.crowd.fill(ctx, status{Epoch: x.epoch, Cohort: trialCohort}, atHalf)
}

// after brings one more cohort through: nothing is stuck.
func (x *trial) after() {
	now, err := x.next(x.epoch)
	if err == nil {
		x.epoch = now.Epoch
		err = x.fill(nil)
	}
	var m *wire.Manifest
	if err == nil {
		m, err = x.awaitManifest(x.epoch, nil)
	}
	if err == nil { // and the one after that can begin
		_, err = x.next(x.epoch)
	}
	if err != nil {
		x.fault("the next cohort did not come through: %v", err)
		x.stuck()
		return
	}
	x.row.next = fmt.Sprintf("%d/%d %s", m.Reports, m.Enrolled, outcomeOf(m))
	if outcomeOf(m) != "released" {
		x.fault("the next cohort was destroyed, with %d of %d reports", m.Reports, m.Enrolled)
	}
	if wrong := x.wrongReleases(); len(wrong) > 0 {
		x.fault("the shuffler's page shows another outcome than the log of epochs %v", wrong)
	}
}

// stuck adds what the roles say of themselves while nothing goes on.
func (x *trial) stuck() {
	why := x.watch.lately(x.roles())
	if len(why) == 0 {
		x.fault("stuck, and every role says that it is ready")
		return
	}
	x.note("not ready: %s", tell(why))
}

func (x *trial) roles() (all []string) {
	for service := range x.ops {
		all = append(all, service)
	}
	return all
}
