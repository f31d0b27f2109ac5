package analyzer

import (
	"maps"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

func programSettings() LearnerSettings {
	l := DefaultSettings().Learner
	l.Profile, l.Family, l.Horizon, l.Dimension = string(glm.LinUCB), family.NameLinear, 5000, 3
	return l
}

func TestWhatIsSaidOfPrograms(t *testing.T) {
	l := programSettings()
	l.Arms, l.Failure, l.Variant, l.Tunables = 4, 0.1, "x", []string{"width=0.5", "first=2e2", "growth=-1"}
	if faults := l.Validate(); len(faults) > 0 {
		t.Error(faults)
	}
	want := map[string]float64{"width": 0.5, "first": 200, "growth": -1}
	if c := l.program(); c.Arms != 4 || c.Failure != 0.1 || c.Variant != "x" || !maps.Equal(c.Options, want) {
		t.Errorf("%+v", c)
	}
	own := DefaultSettings().Learner
	own.Dimension, own.Horizon, own.FirstCohort, own.Growth, own.Sampling, own.ExplorerShare = 3, 5000, 100, 2, 1, -1
	if faults := own.Validate(); len(faults) > 0 {
		t.Error(faults)
	}
	if c := own.program(); c != nil {
		t.Errorf("the default is a program: %+v", c)
	}
}

func TestWhatCannotBeSaidOfPrograms(t *testing.T) {
	type settings = LearnerSettings
	tunables := func(of ...string) func(*settings) { return func(l *settings) { l.Tunables = of } }
	for name, c := range map[string]struct {
		set  func(*settings)
		want string
	}{
		"another family":       {func(l *settings) { l.Family = family.NameLogistic }, "family"},
		"no family":            {func(l *settings) { l.Family = "x" }, "family"},
		"no number":            {tunables("width=wide"), "tunables"},
		"no value":             {tunables("width"), "tunables"},
		"no name":              {tunables("=1"), "tunables"},
		"not a number":         {tunables("width=NaN"), "tunables"},
		"infinite":             {tunables("width=Inf"), "tunables"},
		"too large":            {tunables("width=1e999"), "tunables"},
		"one twice":            {tunables("width=1", "first=60", "width=1"), "tunables"},
		"arms":                 {func(l *settings) { l.Arms = -1 }, "arms"},
		"too many arms":        {func(l *settings) { l.Arms = 1 << 40 }, "arms"},
		"failure":              {func(l *settings) { l.Failure = 1 }, "failure"},
		"a negative failure":   {func(l *settings) { l.Failure = -0.1 }, "failure"},
		"arms of another":      {func(l *settings) { l.Profile, l.Arms = string(glm.Practical), 4 }, "arms"},
		"failure of another":   {func(l *settings) { l.Profile, l.Failure = string(glm.Paper), 0.1 }, "failure"},
		"a variant of another": {func(l *settings) { l.Profile, l.Variant = string(glm.Practical), "x" }, "variant"},
		"a tunable of another": {func(l *settings) { l.Profile, l.Tunables = "paper", []string{"x=1"} }, "tunables"},
		"a first cohort":       {func(l *settings) { l.FirstCohort = 100 }, "first_cohort"},
		"growth":               {func(l *settings) { l.Growth = 2 }, "growth"},
		"sampling":             {func(l *settings) { l.Sampling = -1 }, "sampling"},
		"explorers":            {func(l *settings) { l.ExplorerShare = -1 }, "explorer_share"},
		"width":                {func(l *settings) { l.Width = 0.5 }, "width"},
		"rounds of practical":  {func(l *settings) { l.Profile, l.Rounds = string(glm.Practical), 3 }, "rounds"},
		"a batch of practical": {func(l *settings) { l.Profile, l.Batch = string(glm.Practical), 99 }, "batch"},
	} {
		l := programSettings()
		c.set(&l)
		faults := l.Validate()
		if len(faults) != 1 || !strings.Contains(faults[0].Error(), c.want) {
			t.Errorf("%s: %v", name, faults)
		}
	}
	l := programSettings() // what cannot be read is left out, so that a plan can be looked for
	l.Tunables = []string{"width=wide", "first=60"}
	if want := map[string]float64{"first": 60}; !maps.Equal(l.program().Options, want) {
		t.Errorf("%+v", l.program())
	}
}
