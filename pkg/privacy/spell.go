package privacy

import (
	"math"
	"strconv"
)

// spellDecimals is the number of decimals with which people are shown an epsilon: finer than any difference that
// matters.
const spellDecimals = 4

// spellSmall is where four decimals are too few: a smaller number has three digits.
const spellSmall = 1e-3

// Spell writes an epsilon for people: the smallest number of four decimals that is not below it, since what is shown is
// a promise. Below spellSmall, where four decimals would overstate it by a tenth and more, it has three digits, as
// 1.23e-06. +Inf and NaN, which promise nothing, are "without bound", and so is a number too large to have four
// decimals. Every sentence, table and picture that shows an epsilon uses this; JSON, metrics and logs have the number
// itself.
func Spell(epsilon float64) string {
	const scale = 1e4
	if math.IsInf(epsilon*scale, 1) || math.IsNaN(epsilon) {
		return "without bound"
	}
	if epsilon > 0 && epsilon < spellSmall {
		return spellThree(epsilon)
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

// spellThree is the smallest number of three digits that is not below epsilon, in (0, spellSmall).
func spellThree(epsilon float64) string {
	text := strconv.FormatFloat(epsilon, 'e', 2, 64)
	if near, err := strconv.ParseFloat(text, 64); err != nil || near < epsilon {
		// The nearest is below: the next one is a unit of the last digit above, and nearest to itself.
		unit := math.Pow10(int(math.Floor(math.Log10(epsilon))) - 2)
		text = strconv.FormatFloat(near+unit, 'e', 2, 64)
	}
	return text
}
