package experiment

import (
	"fmt"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/internal/chart"
)

// Picture shows what share of the gain the last policy of each learner keeps in each world. A world at several epsilons
// has a row for each, in which learners without privacy are the same.
func (b *Bakeoff) Picture(title string) chart.Heat {
	h := chart.Heat{Title: title,
		Subtitle: "share of the non-private gain that the last policy keeps; 0: the best constant arm (*: uniform)"}
	type place struct {
		world   string
		epsilon float64
	}
	var places []place
	first := map[string]ShareRow{}
	several := map[string]int{}
	for _, half := range []string{Tuning, HeldOut, ""} {
		start := len(places)
		for _, r := range b.Rows {
			if r.Half != half {
				continue
			}
			p := place{world: r.World}
			if r.Epsilon != nil {
				p.epsilon = *r.Epsilon
			}
			if _, ok := first[r.World]; !ok || first[r.World].Over == "" {
				first[r.World] = r
			}
			if p.epsilon > 0 && !slices.Contains(places, p) {
				places = append(places, p)
				several[p.world]++
			}
		}
		for _, r := range b.Rows { // of learners without privacy only
			if r.Half == half && several[r.World] == 0 {
				places = append(places, place{world: r.World})
				several[r.World]++
			}
		}
		if start > 0 && start < len(places) {
			h.Gaps = append(h.Gaps, start)
		}
	}
	for _, r := range b.Rows {
		if !slices.Contains(h.Columns, r.Algorithm) {
			h.Columns = append(h.Columns, r.Algorithm)
		}
	}
	for _, p := range places {
		name := p.world
		if r := first[p.world]; r.Over == OverUniform || r.Over == OverBest {
			name += " *"
		}
		if p.epsilon > 0 && (several[p.world] > 1 || p.epsilon != 1) {
			name += fmt.Sprintf(", ε = %g", p.epsilon)
		}
		cells := make([]float64, len(h.Columns))
		for j := range cells {
			cells[j] = math.NaN()
		}
		for _, r := range b.Rows {
			if r.World == p.world && (r.Epsilon == nil || *r.Epsilon == p.epsilon) && r.End != nil {
				cells[slices.Index(h.Columns, r.Algorithm)] = *r.End
			}
		}
		h.Rows, h.Cells = append(h.Rows, name), append(h.Cells, cells)
	}
	return h
}
