package wire

import (
	"fmt"
	"math"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// encodingMessage splits an encoding: scale and ranges go into the message, noise bits and bias are the planned release's.
func encodingMessage(e protocol.Encoding) *rifflev1.Encoding {
	out := &rifflev1.Encoding{Scale: e.Scale, Coordinates: make([]*rifflev1.Coordinate, len(e.Coordinates))}
	for j, c := range e.Coordinates {
		out.Coordinates[j] = &rifflev1.Coordinate{Offset: c.Offset, Levels: c.Levels}
	}
	return out
}

// encodingOf puts an encoding together from the message and the planned release that it belongs to. The result passes
// protocol.Encoding.Validate and has noise.
func encodingOf(e *rifflev1.Encoding, release *rifflev1.PlannedRelease) (protocol.Encoding, error) {
	var out protocol.Encoding
	if n := len(e.GetCoordinates()); n == 0 || n > MaxCoordinates {
		return out, field("coordinates", "has %d entries, must have 1 to %d", n, MaxCoordinates)
	}
	if s := e.Scale; !(s >= protocol.MinScale && s <= protocol.MaxScale) {
		return out, field("scale", "is %v, must be between %g and %g levels per unit", s, protocol.MinScale, protocol.MaxScale)
	}
	if release.GetNoiseBits() == 0 || release.GetBias() == 0 {
		return out, field("release", "has no noise")
	}
	coordinates := make([]protocol.Coordinate, len(e.Coordinates))
	for j, c := range e.Coordinates {
		if c == nil {
			c = &rifflev1.Coordinate{} // has no levels: refused below
		}
		if !(math.Abs(c.Offset) <= protocol.MaxOffset) {
			return out, field(fmt.Sprintf("coordinates[%d].offset", j), "is %v, must be a number within %g of zero", c.Offset, protocol.MaxOffset)
		}
		if total := uint64(c.Levels) + uint64(release.NoiseBits); c.Levels == 0 || total > plan.MaxReportMessages {
			return out, field(fmt.Sprintf("coordinates[%d].levels", j), "is %d, must be at least 1 and with %d noise bits at most %d", c.Levels, release.NoiseBits, plan.MaxReportMessages)
		}
		coordinates[j] = protocol.Coordinate{Offset: c.Offset, Levels: c.Levels}
	}
	out = protocol.Encoding{Scale: e.Scale, Coordinates: coordinates, NoiseBits: release.NoiseBits, Bias: protocol.Bias(release.Bias)}
	if err := out.Validate(); err != nil {
		return protocol.Encoding{}, field("coordinates", "%v", err)
	}
	return out, nil
}

var statistics = map[rifflev1.Statistic]glm.StatisticKind{
	rifflev1.Statistic_STATISTIC_HESSIAN:    glm.Hessian,
	rifflev1.Statistic_STATISTIC_GRADIENT:   glm.Gradient,
	rifflev1.Statistic_STATISTIC_COVARIANCE: glm.Covariance,
}

// statisticMessage is STATISTIC_UNSPECIFIED for a kind that is not known.
func statisticMessage(k glm.StatisticKind) rifflev1.Statistic {
	for s, kind := range statistics {
		if kind == k {
			return s
		}
	}
	return rifflev1.Statistic_STATISTIC_UNSPECIFIED
}
