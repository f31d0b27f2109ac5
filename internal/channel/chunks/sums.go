package chunks

import (
	"fmt"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Sums removes the expected noise from counts, of devices and of servers: it is channel.Counting's Sums.
func Sums(a *plan.Announcement, counts *wire.Counts) (sums []channel.Sum, err error) {
	if len(counts.Releases) != len(a.Encodings) {
		return nil, fmt.Errorf("%d releases have counts, the round has %d", len(counts.Releases), len(a.Encodings))
	}
	releases := a.Releases()
	for i, e := range a.Encodings {
		noise := releases[i].ServerNoise()
		values, err := e.Decode(counts.Releases[i].Ones, uint64(counts.Reports), noise)
		if err != nil {
			return nil, fmt.Errorf("release %d: %w", i, err)
		}
		sums = append(sums, channel.Sum{Values: values, Variance: e.Variance(uint64(counts.Reports), noise)})
	}
	return sums, nil
}
