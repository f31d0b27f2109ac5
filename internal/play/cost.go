package play

import (
	"math"
	"math/bits"

	"github.com/riffle-dp/riffle/pkg/channel/registry"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Cost is what one person's part in an epoch costs, over all its rounds.
type Cost struct {
	Messages int // bit messages in the channel shuffle; reports in every other, and in the clear
	Bytes    int // of all sealed reports; 0 where nothing is sealed
	// VarianceRatio is the largest of a release's noise variance over that of a trusted curator's Gaussian noise with
	// the same budget; 0 without privacy.
	VarianceRatio float64
	Work          Work
}

// Work is what the processes compute for one person of an epoch: what CPU time follows from, on any machine.
type Work struct {
	Channel     plan.Channel `json:"trust"`
	Rounds      int          `json:"rounds"`       // reports
	Coordinates int          `json:"coordinates"`  // of all releases of a report
	Width       int          `json:"width"`        // binary digits of the largest integer of a coordinate
	BitMessages int          `json:"bit_messages"` // of all reports, in the channel shuffle
	NoiseBits   int          `json:"noise_bits"`   // that a device draws, over all reports
	// Dummies are the bit messages that the shuffler seals, over all rounds, divided by the people of the cohort.
	Dummies float64 `json:"dummies"`
}

// CostOf is what a proposal costs one person.
func CostOf(p *plan.Proposal) Cost {
	c, k := Cost{Messages: len(p.Plan.Rounds)}, 0
	c.Work.Channel, c.Work.Rounds = p.Plan.Channel, len(p.Plan.Rounds)
	for _, round := range p.Plan.Rounds {
		var encodings []protocol.Encoding
		coordinates := 0
		for _, r := range round.Releases {
			solved := p.Details.Releases[k]
			k++
			encodings = append(encodings, solved.Encoding)
			c.VarianceRatio = math.Max(c.VarianceRatio, solved.VarianceRatio)
			coordinates += len(solved.Encoding.Coordinates)
			c.Work.NoiseBits += len(solved.Encoding.Coordinates) * int(r.NoiseBits)
			for j := range solved.Encoding.Coordinates {
				c.Work.Width = max(c.Work.Width, bits.Len(uint(solved.Encoding.MessagesAt(j))))
			}
			if p.Plan.Channel == plan.Shuffle {
				c.Work.Dummies += float64(len(solved.Encoding.Coordinates)) * float64(r.ShufflerNoise) /
					float64(p.Cohort.Size)
				c.Work.BitMessages += solved.Encoding.Messages()
			}
		}
		c.Work.Coordinates = max(c.Work.Coordinates, coordinates)
		if payload := registry.PayloadSize(p.Plan.Channel, encodings); payload > 0 {
			c.Bytes += wire.EnvelopeSize(payload)
		}
	}
	if p.Plan.Channel == plan.Shuffle {
		c.Messages = c.Work.BitMessages
	}
	return c
}

// Spent is what the cohorts of a run have cost, in their order.
type Spent []CohortCost

// CohortCost is what a cohort of so many people has cost each of them.
type CohortCost struct {
	People int
	Cost
}

// Mean is the mean of a cost over the people of all cohorts; 0 if there are none.
func (s Spent) Mean(of func(Cost) float64) float64 {
	var people, sum float64
	for _, c := range s {
		people += float64(c.People)
		sum += float64(c.People) * of(c.Cost)
	}
	if people == 0 {
		return 0
	}
	return sum / people
}

// Most is the largest of a cost over all cohorts; 0 if there are none.
func (s Spent) Most(of func(Cost) float64) (most float64) {
	for _, c := range s {
		most = math.Max(most, of(c.Cost))
	}
	return most
}
