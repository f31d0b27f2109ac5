package analyzer_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/analyzer"
	"github.com/riffle-dp/riffle/internal/role"
)

// People who configure an analyzer see everything that is wrong at once: values, keys, and that no plan exists, which
// says nothing while a value that it was made from is at fault itself.
func TestAllFaultsOfAConfiguration(t *testing.T) {
	for _, c := range []struct {
		name, args string
		want       []string
		not        string
	}{
		{
			"values and keys",
			"--learner-dimension=5 --learner-horizon=5000 --privacy-epsilon=-1 --log-level=loud --learner-growth=0.5",
			[]string{
				"4 faults:", "privacy.epsilon = -1 (--privacy-epsilon)", "log.level", "learner.growth = 0.5",
				`keys = "nowhere" (--keys)`,
			}, "no plan",
		}, {
			"a promise of nothing", "--learner-dimension=5 --learner-horizon=5000 --privacy-epsilon=0",
			[]string{
				"2 faults:", "keys = ",
				"privacy.epsilon = 0 (--privacy-epsilon) is refused: epsilon is 0: take a number from",
			}, "no plan",
		}, {
			"a promise that is none", "--learner-dimension=5 --learner-horizon=5000 --privacy-epsilon=1e9",
			[]string{"2 faults:", "privacy.epsilon = 1000000000 (--privacy-epsilon)", "keys = "}, "no plan",
		}, {
			"keys and plan", "--learner-dimension=20 --learner-horizon=5000 --privacy-max-messages=10",
			[]string{"2 faults:", "cannot be used: open nowhere", "no plan: MaxMessages", "10 are allowed"},
			"privacy.epsilon",
		}, {
			"reports that the broker does not store", "--learner-dimension=26 --learner-horizon=5000",
			[]string{
				"2 faults:", "keys = ", "max_report_size = 131072", "bytes of a report of 2",
				"provision --max-report-size 14",
			}, "no plan",
		}, {
			"log and plan",
			"--keys= --log-level=loud --learner-dimension=20 --learner-horizon=5000 --privacy-max-messages=10",
			[]string{"3 faults:", "keys is required", "log.level", "no plan: MaxMessages"}, "cannot be used",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := role.Command(analyzer.Role())
			var said bytes.Buffer
			args := []string{"--keys=nowhere", "--state=folder", "--check-config"}
			cmd.SetArgs(append(args, strings.Fields(c.args)...))
			cmd.SetErr(&said)
			if code := role.Main(cmd); code != role.ExitConfig {
				t.Errorf("exit %d", code)
			}
			for _, want := range c.want {
				if !strings.Contains(said.String(), want) {
					t.Errorf("%q is not in\n%s", want, said.String())
				}
			}
			if strings.Contains(said.String(), c.not) {
				t.Errorf("%q is in\n%s", c.not, said.String())
			}
		})
	}
}

// The default settings are valid once the required ones are given.
func TestDefaultsAreValid(t *testing.T) {
	s := analyzer.DefaultSettings()
	s.Learner.Dimension, s.Learner.Horizon = 5, 5000
	for _, profile := range []string{"practical", "paper"} {
		s.Learner.Profile = profile
		if faults := append(s.Learner.Validate(), s.Privacy.Validate()...); len(faults) > 0 {
			t.Errorf("%s: %v", profile, faults)
		}
	}
}
