package environment_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/riffle-dp/riffle/lab/environment"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
)

func TestOptionsAreDeclaredOfFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "people.jsonl")
	lines := `{"arms": [[1, 0, 0, 0], [0, 0, 1, 0]], "rewards": [1, 0]}
{"arms": [[0, 1, 0, 0], [0, 0, 0, 1]], "rewards": [0, 1]}
`
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	s := environment.Spec{Kind: environment.File, Path: path, Options: 2, Context: 2}
	e, err := s.Open(1, 0)
	if err != nil || !reflect.DeepEqual(e.Info().Structure, structure.Options(2, 2)) {
		t.Errorf("%v", err)
	}
	for name, change := range map[string]func(*environment.Spec){
		"one option": func(s *environment.Spec) { s.Options = 1 },
		"no context": func(s *environment.Spec) { s.Context = 0 },
		"too many":   func(s *environment.Spec) { s.Options = 400 },
		"a ball": func(s *environment.Spec) {
			*s = environment.Spec{Kind: environment.Ball, Options: 2, Context: 2}
		},
	} {
		bad := s
		change(&bad)
		if _, err := bad.Resolve(); !errors.Is(err, environment.ErrSpec) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
