package load_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/internal/drive/load"
	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/status"
	"github.com/riffle-dp/riffle/internal/testing/browser"
	"github.com/riffle-dp/riffle/internal/testing/parallel"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
)

// TestMain makes this program run a role where it is given one's name: the roles of the test's deployment are processes
// of their own.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || !slices.Contains([]string{"shuffler", "analyzer", "randomizer", "broker"}, os.Args[1]) {
		parallel.Tests("4")
		os.Exit(m.Run())
	}
	cmd := &cobra.Command{Use: "role", SilenceErrors: true, SilenceUsage: true}
	cmd.AddCommand(cluster.Commands()...)
	os.Exit(role.Main(cmd))
}

// hostile is the host whose keys send garbage. Its randomizer runs, and no person asks it for anything.
const hostile = "hostile"

// learners is how many people the test's deployment learns from: two cohorts. Some of the slots go to malformed
// requests and to the hostile host, so that a few people find the last policy out.
const learners = 320

// start runs a deployment on this machine.
func start(t *testing.T) *cluster.Cluster {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Start(t.Context(), cluster.Options{
		Dir: t.TempDir(), Name: "loadtest", Executable: self, Hosts: []string{"one", "two", hostile}, Devices: 5000,
		Analyzer: []string{"--learner-dimension", "5", "--learner-horizon", fmt.Sprint(learners),
			"--learner-first-cohort", fmt.Sprint(learners / 2), "--learner-growth", "1.01",
			"--timing-reward-window", "2s",
			"--timing-jitter", "200ms", "--timing-grace", "10s", "--timing-enrolment", "20s"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}

// A whole run: people who behave and people who do not, against processes; every sum held against the truth; and then
// what operators see of it: metrics, dashboards, status pages.
func TestAgainstADeployment(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a deployment")
	}
	t.Parallel()
	c := start(t)
	people, err := population.Synthetic(population.SyntheticOptions{Users: learners, Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	var ops []string
	for _, name := range c.Names() {
		ops = append(ops, c.Ops(name))
	}
	shown := map[string]bool{} // some of it only while there is a cohort
	for end := time.Now().Add(testbed.Patience); !shown["riffle_cohort_enrolled"] && time.Now().Before(end); {
		time.Sleep(100 * time.Millisecond)
		names(t, ops, shown)
	}
	goal := func(text string) load.Goal {
		g, err := load.ParseGoal(text)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	options := load.Options{
		APIs: c.APIs()[:2], Population: people, Seed: 7, Concurrency: 16, Ops: ops,
		Keys: c.Keys(), Broker: bus.Options{URL: c.URL()},
		Hostile: load.Hostile{Host: hostile, Devices: 1},
		Shares:  load.Shares{DropOut: 0.05, Duplicate: 0.05, Late: 0.02, Malformed: 0.05},
		Goals: []load.Goal{
			goal("lost=0"), goal("unexpected=0"), goal("anomalies=0"), goal("error_z<=6"), goal("final=1"),
			goal("p50_ms<=0"),
		},
		Progress: progress.New(io.Discard, progress.Options{Mode: progress.Quiet}),
	}
	var result *load.Result
	over := make(chan struct{})
	go func() {
		defer close(over)
		result, err = load.Run(t.Context(), options)
	}()
	for running := true; running; { // a deadline is shown while there is one
		names(t, ops, shown)
		select {
		case <-over:
			running = false
		case <-time.After(200 * time.Millisecond):
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	if err := result.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + table.String())
	if missed := result.Missed(); len(missed) != 1 || !strings.HasPrefix(missed[0], "p50_ms<=0") {
		t.Errorf("missed %v", missed)
	}
	sound := result.Sound() && result.Compared == 4 && result.Destroyed == 0
	if !sound || result.Decided != learners || result.Enrolled != result.Reports {
		t.Errorf("%d sums compared, %d cohorts destroyed, %d decisions, %d enrolled, %d reports",
			result.Compared, result.Destroyed, result.Decided, result.Enrolled, result.Reports)
	}
	provoked := map[string]bool{}
	for _, r := range result.Refusals {
		provoked[r.Reason] = true
	}
	for _, want := range []string{"record_used", "accepted", "bad_reward", "bad_arms", "expired_token", "bad_request"} {
		if !provoked[want] {
			t.Errorf("nothing was refused as %s: %v", want, result.Refusals)
		}
	}
	for _, p := range result.Provocations {
		if p.Refused == nil || *p.Refused != p.Sent {
			t.Errorf("hostile: %+v", p)
		}
	}
	if len(result.Provocations) != 8 {
		t.Errorf("hostile: %+v", result.Provocations)
	}
	items := map[string]bool{}
	for _, a := range result.Accounts {
		if a.Unaccounted != 0 {
			t.Errorf("%+v", a)
		}
		items[a.Role+" "+a.Item] = true
	}
	for _, want := range []string{
		"shuffler bit_message", "shuffler report", "shuffler enrolment", "analyzer bit_message",
		"randomizer report", "randomizer enrolment",
	} {
		if !items[want] {
			t.Errorf("no account of %s", want)
		}
	}

	names(t, ops, shown)
	t.Run("names", func(t *testing.T) { testNames(t, shown) })
	for _, role := range []string{cluster.Shuffler, cluster.Analyzer} {
		t.Run("page of the "+role, func(t *testing.T) { testPage(t, c.Ops(role), role) })
	}
}

// A run whose people end before a cohort is full says at once which cohort that is and how many people it lacks, and
// does not wait for it.
func TestShortCohortIsNamedAndNotWaitedFor(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a deployment")
	}
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Start(t.Context(), cluster.Options{
		Dir: t.TempDir(), Name: "shorttest", Executable: self, Hosts: []string{"one"}, Devices: 500,
		Analyzer: []string{"--learner-dimension", "2", "--learner-horizon", "120", "--learner-first-cohort", "60",
			"--learner-growth", "1.01",
			"--timing-reward-window", "1s", "--timing-jitter", "0s", "--timing-grace", "10s"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	people, err := population.Synthetic(population.SyntheticOptions{Users: 95, Seed: 7, Dim: 2})
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	shown := progress.New(&said, progress.Options{Mode: progress.Plain, Every: time.Hour})
	options := load.Options{
		APIs: c.APIs(), Population: people, Seed: 7, Keys: c.Keys(), Broker: bus.Options{URL: c.URL()}, Progress: shown,
	}
	result, err := load.Run(t.Context(), options)
	shown.Close()
	if err != nil {
		t.Fatal(err)
	}
	want := load.Shortfall{Epoch: 2, Size: 60, Taken: 35, Own: true}
	if s := result.Short; s != nil {
		want.Minimum = s.Minimum
	}
	if s := result.Short; s == nil || *s != want || s.Missing() != 25 {
		t.Errorf("short: %+v", s)
	}
	if result.Unsettled != "" || !result.Sound() || result.Compared != 2 {
		t.Errorf("%d sums compared, sound %v, %q", result.Compared, result.Sound(), result.Unsettled)
	}
	for _, want := range []string{
		"cohort_short: epoch 2 has 35 of 60 people", "25 more would fill its cohort",
		"waiting for a cohort", "waiting for releases",
	} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("%q is not in:\n%s", want, said.String())
		}
	}

	// As many more people as were asked for fill the cohort.
	if people, err = population.Synthetic(population.SyntheticOptions{Users: 25, Seed: 8, Dim: 2}); err != nil {
		t.Fatal(err)
	}
	options.Population, options.Seed, options.Ops = people, 8, []string{c.Ops(cluster.Shuffler)}
	options.Progress = progress.New(io.Discard, progress.Options{Mode: progress.Quiet})
	result, err = load.Run(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	counted := result.Short == nil && result.Unsettled == "" && result.Destroyed == 0
	if !counted || result.Sampled != 25 || len(result.Releases) < 2 {
		t.Errorf("with the others: short %+v, %q, %d sampled, %d releases, %d destroyed",
			result.Short, result.Unsettled, result.Sampled, len(result.Releases), result.Destroyed)
	}
}

// metric is how names of metrics look in queries.
var metric = regexp.MustCompile(`\b(riffle_[a-z0-9_]+|process_[a-z0-9_]+|go_[a-z0-9_]+)\b`)

// matcher is how a label is asked for in queries, in JSON or not; a pattern is a list of values.
var matcher = regexp.MustCompile(`\b(role|item|reason|outcome)=~?\\?"([^"\\]*)\\?"`)

// names adds what the roles show now: names of metrics, and values of labels.
func names(t *testing.T, ops []string, shown map[string]bool) {
	t.Helper()
	for _, base := range ops {
		text := fetch(t, base+"/metrics")
		for _, m := range metric.FindAllString(text, -1) {
			shown[m] = true
		}
		for _, m := range matcher.FindAllStringSubmatch(text, -1) {
			shown[m[1]+"="+m[2]] = true
		}
	}
}

// testNames holds every metric, and every value of a label, that dashboards and alerts ask for against what the roles
// of a real run show.
func testNames(t *testing.T, shown map[string]bool) {
	deploy := filepath.Join("..", "..", "..", "deploy")
	var files []string
	for _, pattern := range []string{"grafana/*.json", "prometheus/*.yaml"} {
		found, err := filepath.Glob(filepath.Join(deploy, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v %v", pattern, found, err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		asked := map[string]bool{}
		for _, m := range metric.FindAllString(string(text), -1) {
			asked[m] = true
		}
		for _, m := range matcher.FindAllStringSubmatch(string(text), -1) {
			for value := range strings.SplitSeq(m[2], "|") {
				asked[m[1]+"="+value] = true
			}
		}
		if strings.HasSuffix(file, ".json") && (len(asked) < 10 || !json.Valid(text)) {
			t.Errorf("%s asks for %d metrics only, or is no JSON", file, len(asked))
		}
		for _, name := range slices.Sorted(maps.Keys(asked)) {
			if !shown[name] {
				t.Errorf("%s asks for %s, which no role shows", filepath.Base(file), name)
			}
		}
	}
}

// testPage looks at a role's page and holds what it shows against the JSON.
func testPage(t *testing.T, base, role string) {
	picture, err := filepath.Abs(filepath.Join("..", "..", "..", "out", "screenshots", "run-"+role+".png"))
	if err != nil {
		t.Fatal(err)
	}
	shown := browser.Fields(browser.Look(t, base+"/", browser.View{Width: 1100, Height: 1060, Picture: picture}))
	var v status.View
	if err := json.Unmarshal([]byte(fetch(t, base+"/status.json")), &v); err != nil {
		t.Fatal(err)
	}
	if !v.Final || len(v.Releases) != 2 || v.Budget == nil || v.Budget.Spent == nil {
		t.Fatalf("%+v", v)
	}
	want := map[string]string{"role": role, "deployment": "loadtest", "epoch": fmt.Sprint(v.Epoch)}
	for i, r := range v.Releases {
		want[fmt.Sprintf("releases.%d.reports", i)] = fmt.Sprint(r.Reports)
		want[fmt.Sprintf("releases.%d.outcome", i)] = status.Released
	}
	for _, a := range v.Accounts {
		want["accounts."+a.Item+".received"] = fmt.Sprint(a.Received)
		want["accounts."+a.Item+".unaccounted"] = "0"
	}
	for name, value := range want {
		if got := strings.ReplaceAll(shown[name].Text, ",", ""); got != value {
			t.Errorf("%s reads %q, want %q", name, got, value)
		}
	}
	if got, want := shown["budget.spent"].Value, fmt.Sprint(*v.Budget.Spent); got != want {
		t.Errorf("spent: %s, want %s", got, want)
	}
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v", url, r.Status, err)
	}
	return string(b)
}
