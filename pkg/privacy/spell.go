package privacy

import (
	"math"
	"strconv"
)

// spellDecimals is how finely people are shown an epsilon: finer than any difference that matters to them, and the same everywhere.
const spellDecimals = 4

// Spell writes an epsilon for people: the smallest number of four decimals that is not below it, since what is shown is a promise.
// +Inf and NaN, which promise nothing, are "without bound", and so is what has no such number above it. Whatever shows an epsilon in a
// sentence, a table or a picture uses this; JSON, metrics and logs have the number itself.
func Spell(epsilon float64) string {
	const scale = 1e4
	if math.IsInf(epsilon*scale, 1) || math.IsNaN(epsilon) {
		return "without bound"
	}
	steps := math.Ceil(epsilon * scale)
	// The product is rounded: it may have passed a whole number in either direction.
	if (steps-1)/scale >= epsilon {
		steps--
	}
	if steps/scale < epsilon {
		steps++
	}
	return strconv.FormatFloat(steps/scale, 'f', spellDecimals, 64)
}
