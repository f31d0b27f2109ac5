package planner

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// largeRatio is the noise ratio from which on a plan says why it is so large.
const largeRatio = 4

// largeNotes say why a release of bit messages has many times a curator's noise, where that is because the cohort is
// large: a device adds at least one noise bit of the least bias.
func (r Result) largeNotes() (notes []string) {
	if r.Trust != "" && r.Trust != plan.Shuffle {
		return nil
	}
	for i, c := range r.Cohorts {
		for _, rel := range c.Releases {
			if rel.VarianceRatio < largeRatio || rel.NoiseBits != 1 || rel.Bias > protocol.BiasHalf.Float()/2 {
				continue
			}
			notes = append(notes, fmt.Sprintf("Cohort %d, %s: the noise has %.3g times the variance of a "+
				"curator's. A device adds at least one noise bit, here with bias %.2g, and %s of them add up to more "+
				"noise than the guarantee needs. Beside it a larger scale would make it small, and that takes more "+
				"messages: see the noise ratios and messages above. It is still little: the error of a sum is %.3g, "+
				"and a sum of so many records that each differ by 1 is uncertain by %.3g already.",
				i+1, rel.Statistic, rel.VarianceRatio, rel.Bias, number(c.Size), rel.Deviation,
				math.Sqrt(float64(c.Size))/2))
		}
	}
	return notes
}
