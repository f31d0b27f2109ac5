package chart

import (
	"math"
	"sort"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// label is a series' name next to the right end of its line.
type label struct {
	text  string
	style draw.TextStyle
	value float64   // where the line ends, in data units
	y     vg.Length // where the label's middle goes, on the canvas
}

type labels []label

const (
	labelGap    = 8  // points between a line's end and its label
	labelHeight = 14 // points that a label needs for itself
)

func (c *Chart) labels() labels {
	var out labels
	for i, s := range c.Series {
		if s.Name == "" {
			continue
		}
		style := textStyle(10.5, i == 0, c.colour(i))
		style.YAlign = draw.YCenter
		out = append(out, label{text: s.Name, style: style, value: s.Y[len(s.Y)-1]})
	}
	return out
}

// width returns the room that the labels need to the right of the plot.
func (l labels) width() vg.Length {
	var w vg.Length
	for _, x := range l {
		w = max(w, x.style.Width(x.text)+labelGap)
	}
	return w
}

// place writes the labels at the heights of their lines' ends, moved apart where they would overlap.
func (l labels) place(data draw.Canvas, toY func(float64) vg.Length) {
	for i := range l {
		l[i].y = toY(l[i].value)
	}
	sort.SliceStable(l, func(i, j int) bool { return l[i].y < l[j].y })
	wanted := make([]float64, len(l))
	for i, x := range l {
		wanted[i] = float64(x.y)
	}
	for i, y := range spread(wanted, labelHeight) {
		data.FillText(l[i].style, vg.Point{X: data.Max.X + labelGap, Y: vg.Length(y) + 1}, l[i].text)
	}
}

// spread moves ascending positions at least gap apart, each as little as it can: groups that touch share their
// displacement (isotonic regression of y[i] - i*gap by pooling adjacent violators).
func spread(y []float64, gap float64) []float64 {
	type group struct {
		sum float64
		n   int
	}
	var groups []group
	for i, v := range y {
		groups = append(groups, group{v - float64(i)*gap, 1})
		for k := len(groups) - 1; k > 0; k-- {
			a, b := groups[k-1], groups[k]
			if a.sum/float64(a.n) <= b.sum/float64(b.n) {
				break
			}
			groups = append(groups[:k-1], group{a.sum + b.sum, a.n + b.n})
		}
	}
	out := make([]float64, 0, len(y))
	for _, g := range groups {
		for range g.n {
			out = append(out, math.FMA(float64(len(out)), gap, g.sum/float64(g.n)))
		}
	}
	return out
}
