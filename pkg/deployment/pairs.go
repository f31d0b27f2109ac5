package deployment

import (
	"fmt"
	"slices"

	"github.com/riffle-dp/riffle/pkg/glm/public"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// orderOfReports is the purpose of the public order in which a learner takes reports.
const orderOfReports = "order of reports"

// pairs are the entries of each report of a round of pairs (plan.Plan.Pairs), as counts list them.
type pairs [][]uint32

// pairsOf are those of counts; nil of another round. It refuses counts that a round of pairs cannot give.
func pairsOf(a *plan.Announcement, counts *wire.Counts) (rows pairs, err error) {
	if !a.Plan.Pairs() {
		return nil, nil
	}
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

// ones is what the entries add up to.
func (p pairs) ones() []uint64 {
	ones := make([]uint64, len(p[0]))
	for _, row := range p {
		for j, entry := range row {
			ones[j] += uint64(entry)
		}
	}
	return ones
}

// reports are arm and reward of each report with its device's noise, without the noise's mean, in data units. They add
// up to Sums, whose variance over their number is that of each.
//
// Counts have them in ascending order. A learner that takes one after the other would see first who has a small first
// coordinate, and its gradients would not have the mean of a person's. So they come in the order of a permutation that
// follows from the epoch alone: for people whose records are alike in law it is as random as the order in which they
// came, and says no more about them.
func (p pairs) reports(a *plan.Announcement) (reports [][]float64, err error) {
	e := a.Encodings[0]
	ones := make([]uint64, len(e.Coordinates))
	for _, row := range p {
		for j, entry := range row {
			ones[j] = uint64(entry)
		}
		report, err := e.Decode(ones, 1, 0)
		if err != nil { // not reached: pairsOf checked the range
			return nil, err
		}
		reports = append(reports, report)
	}
	protocol.Permute(reports, public.NewSource(orderOfReports, int(a.Epoch)))
	return reports, nil
}
