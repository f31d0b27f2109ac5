package chart

import (
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
)

// mostSteps is how many steps an axis has at most: more make a picture restless and say nothing.
const mostSteps = 6

// tickSlack is the part of a step by which a tick may miss the end of its axis: rounding of a quotient of a large value
// and a small step.
const tickSlack = 1e-6

// tickStep returns the smallest step in {1, 2, 2.5, 5} x 10^n that fits at most mostSteps times into a width.
func tickStep(width float64) float64 {
	least := width / mostSteps * (1 - 1e-9)
	unit := math.Pow(10, math.Floor(math.Log10(least)))
	for _, m := range []float64{1, 2, 2.5, 5} {
		if m*unit >= least {
			return m * unit
		}
	}
	return 10 * unit
}

// roundRange widens a range to whole ticks.
func roundRange(low, high float64) (float64, float64) {
	if !(low < high) {
		return low - 1, high + 1
	}
	for { // a wider range may need a larger step; each turn that does not end doubles the step or nearly so
		step := tickStep(high - low)
		a, b := math.Floor(low/step+tickSlack)*step, math.Ceil(high/step-tickSlack)*step
		if tickStep(b-a) == step {
			return a, b
		}
		low, high = a, b
	}
}

func linearTicks(low, high float64) []plot.Tick {
	step := tickStep(high - low)
	if !(step > 0) {
		return []plot.Tick{{Value: low, Label: Number(low, 0)}}
	}
	label := labeller(math.Max(math.Abs(low), math.Abs(high)), step)
	var ticks []plot.Tick
	for i := math.Ceil(low/step - tickSlack); i <= high/step+tickSlack; i++ {
		ticks = append(ticks, plot.Tick{Value: i * step, Label: label(i * step)})
	}
	return ticks
}

// wholeTicks are linearTicks at whole numbers.
func wholeTicks(low, high float64) []plot.Tick {
	step := 1.0
	if high-low > mostSteps {
		step = math.Ceil(tickStep(high - low))
	}
	var ticks []plot.Tick
	for v := math.Ceil(low/step-tickSlack) * step; v <= high+step*tickSlack; v += step {
		ticks = append(ticks, plot.Tick{Value: v, Label: Number(v, 0)})
	}
	return ticks
}

// labeller returns how to write the ticks of an axis: in full, or with an exponent where they would be long.
func labeller(largest, step float64) func(float64) string {
	if decimals := decimalsOf(step); largest < 1e9 && decimals <= 5 {
		return func(v float64) string { return Number(v, decimals) }
	}
	return func(v float64) string {
		if math.Abs(v) < step/2 {
			return "0"
		}
		digits := 2 + int(math.Max(0, math.Log10(math.Abs(v)/step)))
		// A second conversion drops trailing zeros of the mantissa.
		short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
		if err != nil {
			return strconv.FormatFloat(v, 'g', digits, 64)
		}
		return strconv.FormatFloat(short, 'e', -1, 64)
	}
}

// decimalsOf returns how many decimals a number of few significant digits needs, at most 12.
func decimalsOf(v float64) int {
	for d := range 12 {
		scaled := v * math.Pow(10, float64(d))
		if math.Abs(scaled-math.Round(scaled)) <= 1e-9*math.Abs(scaled) {
			return d
		}
	}
	return 12
}

// ticksAtDots returns a tick for each X of the series with dots, where a reader will look for them; nil if they are
// more than a few.
func (c *Chart) ticksAtDots() []plot.Tick {
	var ticks []plot.Tick
	seen := map[float64]bool{}
	for _, s := range c.Series {
		for _, x := range s.X {
			if s.Dots && !seen[x] {
				seen[x] = true
				ticks = append(ticks, plot.Tick{Value: x, Label: Number(x, decimalsOf(x))})
			}
		}
	}
	if len(ticks) > 2*mostSteps {
		return nil
	}
	return ticks
}

// places are the ticks of an axis of names.
func (c *Chart) places() plot.ConstantTicks {
	var ticks []plot.Tick
	for i, name := range c.Places {
		ticks = append(ticks, plot.Tick{Value: float64(i + 1), Label: name})
	}
	return ticks
}

// logTicks puts labels at 1, 2 and 5 times powers of ten, and only at powers of ten where the range is wide.
func logTicks(low, high float64) []plot.Tick {
	decades := math.Log10(high / low)
	stride := math.Max(1, math.Ceil(decades/(mostSteps+1)))
	var ticks []plot.Tick
	for n := math.Floor(math.Log10(low)/stride) * stride; n <= math.Ceil(math.Log10(high)); n += stride {
		for m := 1.0; m < 10; m++ {
			v := m * math.Pow(10, n)
			if v < low*(1-1e-9) || v > high*(1+1e-9) {
				continue
			}
			t := plot.Tick{Value: v}
			if m == 1 || (decades < 3 && (m == 2 || m == 5)) {
				t.Label = labeller(v, v)(v)
			} else if decades >= 3 {
				continue
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}

// Number writes a number with commas between thousands and a fixed count of decimals: 48842 is "48,842".
func Number(v float64, decimals int) string {
	s := strconv.FormatFloat(math.Abs(v), 'f', decimals, 64)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	whole, rest, _ := strings.Cut(s, ".")
	var b strings.Builder
	if v < 0 && strings.Trim(s, "0.") != "" { // no "-0"
		b.WriteByte('-')
	}
	for i, d := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	if rest != "" {
		b.WriteString("." + rest)
	}
	return b.String()
}
