package analyzer

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm/structure"
)

func TestWhatIsSaidOfArms(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*LearnerSettings)
		d    int
		want structure.Structure
	}{
		"a dimension": {func(l *LearnerSettings) { l.Dimension = 7 }, 7, nil},
		"options":     {func(l *LearnerSettings) { l.Options, l.Context = 3, 5 }, 15, structure.Options(3, 5)},
		"options and shared": {func(l *LearnerSettings) { l.Options, l.Context, l.Dimension = 3, 5, 17 }, 17,
			structure.Options(3, 5)},
		"a category": {func(l *LearnerSettings) { l.Dimension, l.Structure = 7, []string{"3:4x1"} }, 7,
			structure.Structure{{From: 3, Count: 4, Size: 1}}},
		"a category of an option": {
			func(l *LearnerSettings) { l.Options, l.Context, l.Structure = 2, 3, []string{"1:2x1"} }, 6,
			structure.Structure{{Count: 2, Size: 3}, {From: 1, Count: 2, Size: 1}}},
	} {
		s := DefaultSettings()
		s.Learner.Horizon = 5000
		c.set(&s.Learner)
		if faults := s.Learner.Validate(); len(faults) > 0 {
			t.Errorf("%s: %v", name, faults)
		}
		if got := s.configuration().Learner; got.Dimension != c.d || !reflect.DeepEqual(got.Structure, c.want) {
			t.Errorf("%s: dimension %d, structure %v", name, got.Dimension, got.Structure)
		}
	}
}

func TestWhatCannotBeSaidOfArms(t *testing.T) {
	type settings = LearnerSettings
	for name, c := range map[string]struct {
		set  func(*settings)
		want string
	}{
		"nothing":                 {func(*settings) {}, "dimension"},
		"too many dimensions":     {func(l *settings) { l.Dimension = 513 }, "dimension"},
		"options of nothing":      {func(l *settings) { l.Options = 3 }, "options"},
		"a context of no options": {func(l *settings) { l.Context, l.Dimension = 3, 3 }, "options"},
		"one option":              {func(l *settings) { l.Options, l.Context = 1, 5 }, "options"},
		"too many weights":        {func(l *settings) { l.Options, l.Context = 103, 5 }, "options"},
		"no room for options":     {func(l *settings) { l.Options, l.Context, l.Dimension = 3, 5, 14 }, "dimension"},
		"no group":                {func(l *settings) { l.Dimension, l.Structure = 7, []string{"3-4"} }, "structure"},
		"a group beyond":          {func(l *settings) { l.Dimension, l.Structure = 7, []string{"4:4x1"} }, "structure"},
	} {
		l := DefaultSettings().Learner
		l.Horizon = 5000
		c.set(&l)
		faults := l.Validate()
		if len(faults) != 1 || !strings.Contains(faults[0].Error(), c.want) {
			t.Errorf("%s: %v", name, faults)
		}
	}
}

// With features the structure is that of the schema, and nothing else may be said.
func TestTheStructureOfFeatures(t *testing.T) {
	path := filepath.Join(t.TempDir(), "features.json")
	err := os.WriteFile(path, []byte(`{"version": 1, "arms": [{"name": "id", "kind": "category", "values":
		["p", "q", "r"]}], "context": [{"name": "x", "kind": "flag"}], "terms": [["id"], ["id", "x"]]}`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	s := DefaultSettings()
	s.Features, s.Learner.Dimension, s.Learner.Horizon = path, 6, 5000
	if faults := s.fileFaults(); len(faults) > 0 {
		t.Fatal(faults)
	}
	want := structure.Structure{{Count: 3, Size: 1, Choice: 1}, {From: 3, Count: 3, Size: 1, Choice: 1}}
	if got := s.configuration().Learner.Structure; !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
	s.Learner.Structure = []string{"0:3x1"}
	if faults := s.fileFaults(); len(faults) != 1 || !strings.Contains(faults[0].Error(), "learner.structure") {
		t.Errorf("%v", faults)
	}
}
