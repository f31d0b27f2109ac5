package deployment

import (
	"fmt"
	"slices"

	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// orderOfReports is the purpose of the public order in which a learner takes reports.
const orderOfReports = "order of reports"

// Reports are the reports of a round of pairs (plan.Plan.Pairs): arm and reward with their device's noise, without its
// mean, in data units. They add up to Sums, whose variance over their number is that of each.
//
// Counts have them in ascending order. A learner that takes one after the other would see first who has a small first
// coordinate, and its gradients would not have the mean of a person's. So they come in the order of a permutation that
// follows from the epoch alone: for people whose records are alike in law it is as random as the order in which they
// came, and says no more about them.
func Reports(a *plan.Announcement, counts *wire.Counts) (reports [][]float64, err error) {
	rows, err := entriesOf(a, counts)
	if err != nil {
		return nil, err
	}
	e := a.Encodings[0]
	ones := make([]uint64, len(e.Coordinates))
	for _, row := range rows {
		for j, entry := range row {
			ones[j] = uint64(entry)
		}
		report, err := e.Decode(ones, 1, 0)
		if err != nil { // not reached: entriesOf checked the range
			return nil, err
		}
		reports = append(reports, report)
	}
	protocol.Permute(reports, learn.NewPublic(orderOfReports, int(a.Epoch)))
	return reports, nil
}

// entriesOf are the entries of each report of a round of pairs. It refuses counts that such a round cannot give.
func entriesOf(a *plan.Announcement, counts *wire.Counts) (rows [][]uint32, err error) {
	if len(counts.Releases) != 1 || len(a.Encodings) != 1 {
		return nil, fmt.Errorf("counts of %d releases of pairs, %d are encoded: there is one", len(counts.Releases),
			len(a.Encodings))
	}
	e, entries := a.Encodings[0], counts.Releases[0].Entries
	each := len(e.Coordinates)
	if each == 0 || len(entries) == 0 || len(entries)%each != 0 {
		return nil, fmt.Errorf("%d entries, which are not whole reports of %d", len(entries), each)
	}
	rows = slices.Collect(slices.Chunk(entries, each))
	if n, all := uint32(len(rows)), counts.Reports; n > all || all-n > a.Cohort.MaxDishonest {
		return nil, fmt.Errorf("%d reports are listed of %d, of which at most %d can have been refused", n, all,
			a.Cohort.MaxDishonest)
	}
	if !slices.IsSortedFunc(rows, slices.Compare[[]uint32]) {
		return nil, fmt.Errorf("the reports are not in ascending order, so that their order may say who sent which")
	}
	for _, row := range rows {
		for j, entry := range row {
			if int(entry) > e.MessagesAt(j) {
				return nil, fmt.Errorf("an entry of coordinate %d is %d, at most %d is possible", j, entry,
					e.MessagesAt(j))
			}
		}
	}
	return rows, nil
}

// onesOf is what the entries of a round of pairs add up to, and of how many reports.
func onesOf(a *plan.Announcement, counts *wire.Counts) (ones []uint64, reports uint64, err error) {
	rows, err := entriesOf(a, counts)
	if err != nil {
		return nil, 0, err
	}
	ones = make([]uint64, len(rows[0]))
	for _, row := range rows {
		for j, entry := range row {
			ones[j] += uint64(entry)
		}
	}
	return ones, uint64(len(rows)), nil
}
