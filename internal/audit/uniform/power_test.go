package uniform

import (
	"fmt"
	"testing"
)

func TestScratch(t *testing.T) {
	for _, n := range []int{5, 12, 48, 240} {
		most := 400_000 / n
		p, err := Simulate(t.Context(), PowerOptions{Shapes: []Shape{{Items: n, Report: 3, Chunk: 16}}, Releases: most, Runs: 4, Items: 4 * most * n})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range Faults() {
			fmt.Printf("%d %s %+v\n", n, f, p[f])
		}
	}
}
