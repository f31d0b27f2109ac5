package population_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/internal/population/decisions"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// FuzzPeopleFile opens any bytes as a file of people, plain or packed. Whoever it gives has arms of one dimension and
// of norm at most 1 and rewards in the family's range; what is wrong is said so that ErrLog is in it.
func FuzzPeopleFile(f *testing.F) {
	lines := []byte(good + "\n\n" + good + "\n")
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(lines); err != nil {
		f.Fatal(err)
	}
	if err := z.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(lines)
	f.Add(packed.Bytes())
	f.Add(packed.Bytes()[:packed.Len()-9])
	f.Add([]byte{0x1f, 0x8b})
	f.Add([]byte(`{"arms":[[1,0],[3,4]],"rewards":[0,1]}` + "\n" + `{"arms":[[1]],"rewards":[0]}`))
	path := filepath.Join(f.TempDir(), "people")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := population.File(path, population.FileOptions{
			Family: family.NameLogistic, MaxReward: 1, NormBound: 1, Holdout: 0.25,
		})
		if err != nil {
			if p != nil || !errors.Is(err, decisions.ErrLog) && !errors.Is(err, population.ErrTooFew) {
				t.Fatalf("%+v, %v", p, err)
			}
			return
		}
		people := 0
		for person, err := range p.People() {
			if err != nil {
				t.Fatal(err)
			}
			people++
			for i, arm := range person.Arms {
				sum := 0.0
				for _, x := range arm {
					sum += x * x
				}
				if len(arm) != p.Info().Dim || !(sum <= 1+1e-8) || !(person.Rewards[i] >= 0 && person.Rewards[i] <= 1) {
					t.Fatalf("%+v", person)
				}
			}
		}
		if people != p.Info().People {
			t.Fatalf("%d people, it says %d", people, p.Info().People)
		}
	})
}
