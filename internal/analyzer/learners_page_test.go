package analyzer_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/analyzer"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/plan"
)

var update = flag.Bool("update", false, "write the table of learners of docs/trust.md")

// deployable reports whether a deployment of a learner can be planned, for 20,000 people.
func deployable(p glm.Profile, c plan.Channel, rewards string, dimension int, panels bool) bool {
	s := analyzer.DefaultSettings()
	s.Learner.Profile, s.Learner.Family, s.Learner.Radius = string(p), rewards, 1
	s.Learner.Dimension, s.Learner.Horizon, s.Privacy.Channel = dimension, 20_000, string(c)
	if panels {
		s.Admission.Mode, s.Admission.Panel, s.Admission.Registered = "panel", 2000, 20_000
	}
	for _, part := range [][]error{s.Learner.Validate(), s.Privacy.Validate(), s.Validate()} {
		if len(part) > 0 {
			return false
		}
	}
	return s.Feasible() == nil
}

// The page says which learner runs over which channel as the analyzer itself does; learners with the same answers share
// a line.
func TestPageSaysWhatIsDeployable(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	t.Parallel()
	var answers []string
	names := map[string][]string{}
	for _, p := range glm.Profiles() {
		answer := deployed(p)
		if names[answer] == nil {
			answers = append(answers, answer)
		}
		names[answer] = append(names[answer], "`"+string(p)+"`")
	}
	table := "| `learner.profile` | rewards | numbers of an arm | channels | panels |\n|---|---|---|---|---|\n"
	for _, answer := range answers {
		table += fmt.Sprintf("| %s | %s |\n", strings.Join(names[answer], ", "), answer)
	}
	path := filepath.Join("..", "..", "docs", "trust.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const from = "<!-- learners: go test ./internal/analyzer -run Page -update -->\n\n"
	before, rest, found := strings.Cut(string(page), from)
	_, after, ends := strings.Cut(rest, "\n\n")
	if !found || !ends {
		t.Fatalf("%s has no place for the table of learners: %q", path, from)
	}
	want := before + from + table + "\n" + after
	if want == string(page) {
		return
	}
	if !*update {
		t.Fatalf("the table of learners in %s is not current; it is\n%s\nrun go test ./internal/analyzer -run Page "+
			"-update", path, table)
	}
	if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// deployed are the cells of a learner: its rewards, the most numbers of an arm, the channels that carry it, and whether
// its cohorts can be panels.
func deployed(p glm.Profile) string {
	const most = 5 // of learners that have a limit it is lower
	var over []string
	for _, c := range plan.Channels() {
		if deployable(p, c, family.NameLinear, 2, false) {
			over = append(over, "`"+string(c)+"`")
		}
	}
	if len(over) == 0 {
		return "none | none | none | none"
	}
	one := plan.Channel(strings.Trim(over[0], "`"))
	if len(over) == len(plan.Channels()) {
		over = []string{"all"}
	}
	rewards, numbers, panels := family.NameLinear, most, "no"
	if deployable(p, one, family.NameLogistic, 2, false) {
		rewards = "any"
	}
	for numbers > 2 && !deployable(p, one, family.NameLinear, numbers, false) {
		numbers--
	}
	if deployable(p, one, family.NameLinear, 2, true) {
		panels = "yes"
	}
	upTo := "any"
	if numbers < most {
		upTo = fmt.Sprintf("at most %d", numbers)
	}
	return strings.Join([]string{rewards, upTo, strings.Join(over, ", "), panels}, " | ")
}
