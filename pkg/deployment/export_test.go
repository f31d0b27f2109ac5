package deployment

import (
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Reports are those that a machine gives its learner of a round of pairs.
func Reports(a *plan.Announcement, counts *wire.Counts) ([][]float64, error) {
	rows, err := pairsOf(a, counts)
	if err != nil {
		return nil, err
	}
	return rows.reports(a)
}
