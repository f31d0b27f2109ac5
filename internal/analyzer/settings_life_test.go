package analyzer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/deployment/policyfile"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Settings of panels, of several records, of the control group and of files that do not go together stop the start, by
// their keys; those that do are whole configurations.
func TestSettingsOfDeploymentsThatLast(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	t.Parallel()
	folder := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	schema := `{"version":1,"arms":[{"name":"length","kind":"number","low":0,"high":9}],"terms":%s}`
	two := file("two.json", fmt.Sprintf(schema, `[["bias"],["length"]]`))
	one := file("one.json", fmt.Sprintf(schema, `[["length"]]`))
	prior := file("prior.json", `{"theta":[0.5,0],"precision":[[2,0.5],[0.5,1]]}`)
	skew := file("skew.json", `{"theta":[0.5,0],"precision":[[2,0.5],[0,1]]}`)
	panel := "--admission-mode=panel --admission-panel=200 --admission-registered=1000 "
	for _, c := range []struct {
		args string
		want string // part of the only fault besides the missing keys; "" for none
	}{
		{panel, ""},
		{panel + "--privacy-records=2 --privacy-period=30 --privacy-decisions=7 --learner-control=0.05 " +
			"--learner-anytime --privacy-epsilon=4 --timing-every=24h --rules-rollback=-0.01 --rules-window=3 " +
			"--learner-half-life=20 --learner-alarm=0.001 --learner-caution=1 --privacy-dishonest=0.01", ""},
		{panel + "--privacy-channel=shuffle", ""},
		{"--admission-mode=raffle", "must be arrival or panel"},
		{"--admission-panel=200", "there are panels only in the mode panel"},
		{"--admission-registered=200", "there are panels only in the mode panel"},
		{panel + "--admission-panel=0", `must be above 0 with admission.mode = "panel"`},
		{panel + "--admission-registered=0", `must be above 0 with admission.mode = "panel"`},
		{panel + "--admission-registered=199", "must not be more than admission.registered"},
		{panel + "--admission-panel=49", "must be at least privacy.min_cohort"},
		{panel + "--admission-tail=1", "must be at least 0 and below 1"},
		{panel + "--admission-tail=1e-6", "must be below privacy.delta"},
		{panel + "--admission-sponsor-share=0.5 --privacy-channel=shares", ""},
		{panel + "--learner-profile=paper --privacy-max-messages=0 --learner-horizon=9000",
			`cannot go with learner.profile = "paper"`},
		{"--privacy-records=2", "needs panels"},
		{"--privacy-period=2", "needs panels"},
		{"--privacy-decisions=2", "needs panels"},
		{panel + "--privacy-records=0", "must be between 1 and"},
		{panel + "--privacy-records=4 --privacy-period=3 --privacy-epsilon=4", "must be 0 or at least privacy.records"},
		{"--learner-control=0.05", ""},
		{"--learner-control=1", "learner.control = 1"},
		{"--learner-control=0.05 --learner-profile=paper --privacy-max-messages=0 --learner-horizon=9000",
			`cannot go with learner.profile = "paper"`},
		{"--learner-control-share=0.1", "needs a control group"},
		{"--learner-half-life=-1", "learner.half_life"},
		{"--learner-alarm=1", "learner.alarm"},
		{"--rules-stop=-0.1", "needs a control group"},
		{"--rules-stop=low --learner-control=0.05", "must be empty or a finite number"},
		{"--rules-rollback=-0.1 --rules-stop=-0.1 --learner-control=0.05", "must be below rules.rollback"},
		{"--rules-rollback=-0.1 --rules-stop=-0.2 --learner-control=0.05", ""},
		{"--rules-window=0", "must be at least 1"},
		{"--timing-every=-1s", "must be between 0 and 24 days"},
		{"--features=" + two, ""},
		{"--features=" + one, "must be the 1 of features"},
		{"--features=" + filepath.Join(folder, "none"), "features = "},
		{"--features=" + prior, "features = "},
		{"--learner-prior=" + prior, ""},
		{"--learner-prior=" + skew, "not symmetric at row 1, column 2"},
		{"--learner-prior=" + two, "learner.prior = "},
		{"--learner-prior=" + prior + " --learner-dimension=3", "theta has 2 numbers, learner.dimension is 3"},
	} {
		cmd := role.Command(Role())
		cmd.SetArgs(append([]string{"--keys=nowhere", "--state=folder", "--check-config", "--privacy-channel=local",
			"--learner-dimension=2",
			"--learner-horizon=400"}, // plans of this channel are quick
			strings.Fields(c.args)...))
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		err := fmt.Sprint(cmd.Execute())
		faults := strings.Count(err, "\n")
		switch {
		case !strings.Contains(err, "cannot be used: open nowhere"):
			t.Errorf("%s: %s", c.args, err)
		case c.want == "" && faults != 1:
			t.Errorf("%s is refused: %s", c.args, err)
		case c.want != "" && (!strings.Contains(err, c.want) || faults != 2): // a headline and two faults
			t.Errorf("%s: want only %q in %s", c.args, c.want, err)
		}
	}
}

// A prior's matrix may be written as rows or as its upper triangle, and both are the same one.
func TestAPriorIsReadInEitherForm(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "prior.json")
	for _, content := range []string{
		`{"theta":[0.5,0],"precision":[[2,0.5],[0.5,1]]}`, `{"theta":[0.5,0],"precision":[2,0.5,1]}`,
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		s := DefaultSettings()
		s.Learner.Dimension, s.Learner.Prior = 2, path
		got := s.learner().Practical
		if !reflect.DeepEqual(got.PriorTheta, []float64{0.5, 0}) ||
			!reflect.DeepEqual(got.PriorPrecision, symmetric.Packed{2, 0.5, 1}) {
			t.Errorf("%s: %v, %v", content, got.PriorTheta, got.PriorPrecision)
		}
	}
	for _, content := range []string{
		"", "[]", `{"theta":[0.5,0]}`, `{"theta":[0.5,0],"precision":[[2,0.5]]}`, `{"theta":[0.5,0],"precision":[2,1]}`,
		`{"theta":[0.5,0],"precision":[[2,0.5],[0.5]]}`, `{"theta":[0.5,0],"precision":[]}`,
		`{"theta":[0.5,0],"precision":[[2,0.5],[]]}`, `{"theta":[0.5,0],"precision":[2,0.5,1]}{}`,
		`{"theta":[0.5,0],"precision":[[2,0.5],[0.5,1]],"more":1}`, `{"theta":[0.5,0],"precision":"x"}`,
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if p, err := (LearnerSettings{Dimension: 2, Prior: path}).prior(); err == nil {
			t.Errorf("%s is read as %v", content, p)
		}
	}
}

// An analyzer whose budget begins anew every period, and that says nothing of how long epochs are, announces what hosts
// with the default least length allow, whatever its reports take; one that says less is refused by them.
func TestPeriodsByDefaultAreWhatHostsAllow(t *testing.T) {
	t.Parallel()
	identity, err := seal.GenerateIdentity()
	if err != nil {
		t.Fatal(err)
	}
	key, err := seal.GenerateHPKE()
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []struct {
		period        int
		window, every time.Duration
		want          string // the limit that refuses it
	}{
		{1, time.Hour, 0, ""}, {52, 7 * 24 * time.Hour, 0, ""}, {52, time.Hour, 24 * time.Hour, "min_epoch"},
		{52, time.Millisecond, time.Millisecond, "min_epoch"}, {52, time.Hour, 26 * time.Hour, ""},
	} {
		s := DefaultSettings()
		s.Learner.Dimension, s.Learner.Horizon, s.Privacy.Channel = 2, 400, string(plan.Local)
		s.Admission = AdmissionSettings{Mode: panels, Panel: 200, Registered: 1000, SponsorShare: 1}
		s.Privacy.Period, s.Timing.RewardWindow, s.Timing.Every = of.period, of.window, of.every
		c := s.configuration()
		c.Deployment = "periods"
		m, err := deployment.New(c)
		if err != nil {
			t.Fatal(err)
		}
		a, err := m.Next(key.Public(), make([]byte, 32))
		if err != nil {
			t.Fatal(err)
		}
		signed, _, err := wire.Sign(a, identity)
		if err != nil {
			t.Fatal(err)
		}
		limits := device.DefaultLimits()
		limits.Period = of.period
		core, err := device.New(device.Config{Deployment: "periods", Analyzer: identity.Public(), Limits: limits})
		if err != nil {
			t.Fatal(err)
		}
		judged, err := core.Judge(signed, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		var weak *device.WeakPlan
		if (of.want == "") != (judged.Weak() == nil) || of.want != "" && (!errors.As(judged.Weak(), &weak) ||
			weak.Limit != of.want) {
			t.Errorf("%+v: %v", of, judged.Weak())
		}
	}
	s := DefaultSettings()
	s.Privacy.Period = 52
	if got := s.timing().Every; got != 0 {
		t.Errorf("without panels epochs are %v apart", got)
	}
}

// A prior can be a policy that another deployment exported, if its features and its rewards are the same.
func TestAPriorCanBeAnExportedPolicy(t *testing.T) {
	t.Parallel()
	export := filepath.Join("..", "..", "pkg", "deployment", "policyfile", "testdata", "policy.json")
	text, err := os.ReadFile(export)
	if err != nil {
		t.Fatal(err)
	}
	file, err := policyfile.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	schema := write("features.json", file.Schema)
	other := write("other.json", bytes.Replace(file.Schema, []byte(`"high": 90`), []byte(`"high": 91`), 1))
	settings := func(change func(*Settings)) Settings {
		s := DefaultSettings()
		s.Features, s.Learner.Prior, s.Learner.Dimension = schema, export, 7
		if change != nil {
			change(&s)
		}
		return s
	}
	if faults := settings(nil).fileFaults(); len(faults) > 0 {
		t.Fatal(faults)
	}
	p := settings(nil).learner().Practical
	if !reflect.DeepEqual(p.PriorTheta, file.Policy.Theta) {
		t.Errorf("the prior is %v", p.PriorTheta)
	}
	if v := p.PriorPrecision[0]; math.Abs(v-100) > 1e-6 { // 1 / 0.01
		t.Errorf("the first precision is %v", v)
	}
	replaced := func(old, by string) func(*Settings) {
		path := write(fmt.Sprintf("%x.json", by), []byte(strings.Replace(string(text), old, by, 1)))
		return func(s *Settings) { s.Learner.Prior = path }
	}
	for want, change := range map[string]func(*Settings){
		"with another schema":    func(s *Settings) { s.Features = other },
		"with another schema of": func(s *Settings) { s.Features = "" },
		"rewards up to 1, and":   func(s *Settings) { s.Learner.MaxReward = 5 },
		"linear":                 func(s *Settings) { s.Learner.Family = "linear" },
		"learner.dimension is 6": func(s *Settings) { s.Learner.Dimension = 6 },
		"changed after":          replaced(`"caution": 1`, `"caution": 2`),
		"riffle-policy-2":        replaced("policy-1", "policy-2"),
	} {
		if faults := fmt.Sprint(settings(change).fileFaults()); !strings.Contains(faults, want) {
			t.Errorf("want %q in %s", want, faults)
		}
	}
}
