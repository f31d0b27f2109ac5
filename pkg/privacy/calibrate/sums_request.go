package calibrate

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/privacy"
)

// SumRequest describes the releases that will use one record where a device sends numbers and not bit messages: its
// cost is the width of an entry, the same for all entries, so that levels and noise bits are nearly free.
type SumRequest struct {
	Epsilon, Delta float64 // the guarantee for one record over all its releases
	Cohort         int     // reports expected; errors are predicted for it
	// Releases and Shares are those of Request.
	Releases []privacy.Vector
	Shares   []float64

	// Counted is the number of devices whose noise an observer does not know: the fewest reports less the most
	// dishonest ones. 0: devices add no noise, and the servers' protects.
	Counted int
	// Own says that each device's own noise is its whole protection: Counted is then 1.
	Own bool
	// Servers is, where Counted is 0, the number of servers that add noise, each of them all that the guarantee needs:
	// an observer who is one of them still faces the others'.
	Servers int

	// Ratio is the largest IdealRatio of a release; above 1. A release that MaxEntryBits or MaxMessages hold back may
	// miss it.
	Ratio float64
	// Fill makes as much of the entry width that Ratio needs as can be had: the most noise bits that fit, and with them
	// the least error. Otherwise the fewest noise bits are taken.
	Fill bool
	// Finer, with Fill, is a ratio below Ratio that is worth wider entries, but only while all entries of a report
	// together have at most FineBits bits, and a report that says the most an entry can say moves a sum by at most
	// MaxPoison standard deviations of its error. 0: Ratio is all that is asked for.
	Finer        float64
	FineBits     int
	MaxPoison    float64
	MaxEntryBits int // entries are integers below 2^MaxEntryBits; 1 to MaxSumEntryBits
	// MaxMessages limits the levels of all coordinates together, where each is a message; 0: no limit.
	MaxMessages int
	MaxShift    float64 // caps diameter times scale, in levels; 0: no cap
	ShiftOnly   bool    // as in Request
	// Joint bounds how far the releases can move together; nil: each is certified by itself.
	Joint privacy.Spread
}

// MaxSumEntryBits bounds SumRequest.MaxEntryBits.
const MaxSumEntryBits = 16

// sumSlack is the relative amount by which shifts and scales are raised for the certificate: a device does the same
// with what an announcement says (package plan), against the rounding of a product of a diameter and a scale.
const sumSlack = 1e-9

func (r SumRequest) validate() error {
	switch {
	case r.Cohort < 1:
		return fmt.Errorf("%w: Cohort %d, want at least 1", privacy.ErrRequest, r.Cohort)
	case r.Counted < 0 || r.Counted > r.Cohort:
		return fmt.Errorf("%w: Counted %d, want 0 to Cohort, %d", privacy.ErrRequest, r.Counted, r.Cohort)
	case r.Own && r.Counted != 1:
		return fmt.Errorf("%w: Counted %d where a device counts on its own noise, want 1", privacy.ErrRequest,
			r.Counted)
	case r.Counted == 0 && (r.Servers < 1 || r.Servers > 2):
		return fmt.Errorf("%w: no device's noise counts and %d servers add noise, want 1 or 2", privacy.ErrRequest,
			r.Servers)
	case !(r.Ratio > 1) || math.IsInf(r.Ratio, 1):
		return fmt.Errorf("%w: Ratio %v, want a finite number above 1", privacy.ErrRequest, r.Ratio)
	case !(r.Finer >= 0 && r.Finer <= r.Ratio) || r.FineBits < 0 || !(r.MaxPoison >= 0):
		return fmt.Errorf("%w: Finer %v, FineBits %d, MaxPoison %v: want a number from 0 to Ratio, %v, and numbers "+
			">= 0",
			privacy.ErrRequest, r.Finer, r.FineBits, r.MaxPoison, r.Ratio)
	case r.MaxEntryBits < 1 || r.MaxEntryBits > MaxSumEntryBits:
		return fmt.Errorf("%w: MaxEntryBits %d, want 1 to %d", privacy.ErrRequest, r.MaxEntryBits, MaxSumEntryBits)
	case r.MaxMessages < 0 || !(r.MaxShift >= 0):
		return fmt.Errorf("%w: MaxMessages %d, MaxShift %v: want numbers >= 0", privacy.ErrRequest, r.MaxMessages,
			r.MaxShift)
	}
	return nil
}
