package structure_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm/structure"
)

func TestParseReadsWhatStringWrites(t *testing.T) {
	got, err := structure.Parse([]string{"0:3x5", "15:4x1=2", "19:4x2=2"})
	want := structure.Structure{group(0, 3, 5, 0), group(15, 4, 1, 2), group(19, 4, 2, 2)}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if text := want.Text(); !reflect.DeepEqual(text, []string{"0:3x5", "15:4x1=2", "19:4x2=2"}) ||
		structure.Structure(nil).Text() != nil {
		t.Errorf("written as %v", text)
	}
	if got, err := structure.Parse(nil); got != nil || err != nil {
		t.Errorf("no text: %v, %v", got, err)
	}
	for _, text := range []string{"", "3x5", "0:3", "0:3x", ":3x5", "0:x5", "0:3x5=", "0:3x5=0", "0:3x5=-1", "-1:3x5",
		"+0:3x5", "0:03x5", " 0:3x5", "0:3x5 ", "0:3x5x1", "0:3:5", "0:3x5=1=1", "1e2:3x5",
		"99999999999999999999:3x5"} {
		if got, err := structure.Parse([]string{"0:2x1", text}); !errors.Is(err, structure.ErrInvalid) || got != nil {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// Whatever text is read is the one form of what it says.
func FuzzGroupsAsText(f *testing.F) {
	for _, seed := range []string{"0:3x5", "15:4x1=2,19:4x2=2", "", "1:2x", "9:9x9=9=9"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		groups := strings.Split(text, ",")
		s, err := structure.Parse(groups)
		if err != nil {
			return
		}
		for i, g := range s {
			if g.String() != groups[i] {
				t.Errorf("%q is read as %v", groups[i], g)
			}
		}
	})
}
