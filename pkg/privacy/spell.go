package privacy

import (
	"math"
	"strconv"
)

// spellDecimals is the number of decimals with which people are shown an epsilon: finer than any difference that
// matters.
const spellDecimals = 4

// Spell writes an epsilon for people: the smallest number of four decimals that is not below it, since what is shown is
// a promise. +Inf and NaN, which promise nothing, are "without bound", and so is a number too large to have four
// decimals. Every sentence, table and picture that shows an epsilon uses this; JSON, metrics and logs have the number
// itself.
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
