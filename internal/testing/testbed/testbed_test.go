package testbed

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
)

func TestAnnouncementsAreValid(t *testing.T) {
	b := New(t)
	for _, profile := range []glm.Profile{glm.Practical, glm.Paper} {
		for _, cohort := range []int{5, 12, 20} {
			a := b.Announcement(profile, cohort)
			b.Sign(a, b.Analyzer)
			g, err := plan.Guarantee(a, 0)
			if err != nil || !(g.Epsilon(1e-3) <= 4) {
				t.Errorf("%s, cohort of %d: epsilon %v, %v", profile, cohort, g.Epsilon(1e-3), err)
			}
			t.Log(profile, cohort, a.Cohort, a.ReportMessages(), g.Epsilon(1e-3))
		}
	}
}

// What Marks looks for is found, in each of its forms: a scan that finds nothing means something.
func TestMarksAreFound(t *testing.T) {
	const v = 0.7312948301
	marks := Marks(v)
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], math.Float64bits(v))
	for _, text := range []string{
		fmt.Sprint(v), fmt.Sprintf("%.10f", v), fmt.Sprintf("%.9e", v), fmt.Sprint(-v), fmt.Sprintf("%x",
			math.Float64bits(v)), string(b[:]),
		fmt.Sprint(math.Float64bits(v)), base64.StdEncoding.EncodeToString(b[:]), fmt.Sprintf(`{"arms":[[%v,0]]}`, v),
	} {
		if len(Find([]byte("before "+text+" behind"), marks)) == 0 {
			t.Errorf("%q is not found", text)
		}
	}
	binary.BigEndian.PutUint64(b[:], math.Float64bits(-v))
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), b[:], 0o600); err != nil {
		t.Fatal(err)
	}
	if found, files := FindInFolder(t, dir, marks); len(found) == 0 || files != 1 {
		t.Errorf("%v in %d files", found, files)
	}
	if found := Find([]byte("0.73129 is not it, nor 0.7312849"), marks); len(found) > 0 {
		t.Errorf("%v", found)
	}
}
