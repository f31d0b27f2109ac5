package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The file that `riffle evaluate --write-prior --epsilon` writes has noise, another one in every run, and as much as
// the epsilon asks for: of 300 rows at an epsilon of 0.05 hardly anything is left, and the file's precision says so.
// Without an epsilon the same command writes the same file twice. (Two draws of the system's generator that agree to
// the last digit are the only false alarm of the first part; the second has a margin of ten and more: the precision is
// a sixtieth.)
func TestWrittenPriorsAreNoised(t *testing.T) {
	if testing.Short() { // nothing of it runs at the same time as anything else
		t.Skip("without a second goroutine")
	}
	draw, log := rand.New(rand.NewPCG(25, 6)), strings.Builder{}
	for range 300 {
		arm, reward := draw.IntN(2), 0
		x := []float64{2*draw.Float64() - 1, 2*draw.Float64() - 1}
		if draw.Float64() < 1/(1+math.Exp(-2*x[arm])) {
			reward = 1
		}
		fmt.Fprintf(&log, `{"arms": [[%g, 0.3], [0.3, %g]], "arm": %d, "reward": %d, "propensity": 0.5}`+"\n", x[0],
			x[1], arm, reward)
	}
	dir, path := t.TempDir(), written(t, "log.jsonl", log.String())
	prior := func(args ...string) (theta []float64, precision float64) {
		t.Helper()
		file := filepath.Join(dir, "prior.json")
		_, beside, err := execute(t, "", append([]string{"evaluate", path, "--write-prior", file}, args...)...)
		if err != nil {
			t.Fatalf("%v\n%s", err, beside)
		}
		var said struct{ Theta, Precision []float64 }
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &said); err != nil || len(said.Theta) != 2 || len(said.Precision) != 3 {
			t.Fatalf("%v: %s", err, text)
		}
		return said.Theta, said.Precision[0]
	}
	apart := func(a, b []float64) float64 { return math.Hypot(a[0]-b[0], a[1]-b[1]) }
	raw, exact := prior()
	if again, _ := prior(); apart(raw, again) != 0 {
		t.Errorf("without an epsilon two runs write priors that are %v apart", apart(raw, again))
	}
	one, noised := prior("--epsilon", "0.05", "--delta", "1e-6")
	two, _ := prior("--epsilon", "0.05", "--delta", "1e-6")
	if apart(raw, one) == 0 || apart(raw, two) == 0 || apart(one, two) == 0 {
		t.Errorf("with an epsilon two runs write %v and %v, the raw prior is %v", one, two, raw)
	}
	t.Logf("raw %v, noised %v; the precision is %.4f of the raw one's", raw, one, noised/exact)
	if noised > exact/4 {
		t.Errorf("the noised prior has a precision of %v, the raw one of %v", noised, exact)
	}
}
