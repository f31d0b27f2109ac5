package chart

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Interval is a number with its interval.
type Interval struct {
	Name      string
	Value     float64
	Low, High float64 // NaN: there is none
}

// Intervals shows numbers with their intervals, one below the other, on one axis with a line at 0. An interval that
// does not hold 0 is blue, the others are grey.
type Intervals struct {
	Title    string
	Subtitle string
	X        string // name of the axis
	Rows     []Interval
}

const (
	// mostRows bounds the rows that are drawn, so that a picture stays one that can be looked at.
	mostRows = 60
	// mostName bounds the characters of a name that are drawn.
	mostName      = 48
	intervalWidth = 420 // points, of the axis
	intervalFoot  = 46  // points below the last row, for the axis
)

// Save draws the numbers into a file; the extension, .png or .svg, sets the format. The file appears whole or not at
// all.
func (v Intervals) Save(path string) error {
	l, err := v.layout()
	if err != nil {
		return err
	}
	var b bytes.Buffer
	switch strings.ToLower(filepath.Ext(path)) {
	case ".png":
		canvas := vgimg.NewWith(vgimg.UseWH(l.width, l.height), vgimg.UseDPI(PNGResolution))
		v.draw(draw.New(canvas), l)
		_, err = vgimg.PngCanvas{Canvas: canvas}.WriteTo(&b)
	case ".svg":
		canvas := vgsvg.New(l.width, l.height)
		v.draw(draw.New(canvas), l)
		_, err = canvas.WriteTo(&b)
	default:
		return fmt.Errorf("%w: %q: the extension must be .png or .svg", ErrChart, path)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrChart, err)
	}
	return writeFile(path, withFallback(b.Bytes()))
}

// intervalLayout is where the parts are, and what the axis covers.
type intervalLayout struct {
	left, top     vg.Length
	width, height vg.Length
	low, high     float64
	rows          []Interval
	rest          string // of rows that are not drawn
}

// layout checks the numbers and measures their names.
func (v Intervals) layout() (l intervalLayout, err error) {
	if len(v.Rows) == 0 {
		return l, fmt.Errorf("%w: there are no numbers", ErrChart)
	}
	l.rows = append(l.rows, v.Rows[:min(len(v.Rows), mostRows)]...)
	if n := len(v.Rows) - len(l.rows); n > 0 {
		l.rest = fmt.Sprintf("%d more are not drawn", n)
	}
	names, axis := textStyle(10, false, ink), span{}
	axis.cover([]float64{0})
	for i, row := range l.rows {
		if math.IsNaN(row.Value) || math.IsInf(row.Value, 0) {
			return l, fmt.Errorf("%w: %q is not finite", ErrChart, row.Name)
		}
		if name := []rune(row.Name); len(name) > mostName {
			l.rows[i].Name = string(name[:mostName-1]) + "…"
		}
		l.left = max(l.left, names.Width(l.rows[i].Name))
		axis.cover([]float64{row.Value})
		if row.Low <= row.High && !math.IsInf(row.High-row.Low, 0) {
			axis.cover([]float64{row.Low, row.High})
		}
	}
	l.low, l.high = roundRange(axis.low, axis.high)
	l.left, l.top = l.left+heatMargin+8, heatMargin
	for _, one := range []struct {
		text string
		room vg.Length
	}{{v.Title, 24}, {v.Subtitle, 18}} {
		if one.text != "" {
			l.top += one.room
		}
	}
	l.width = max(l.left+intervalWidth+heatMargin, 2*heatMargin+textStyle(15, true, ink).Width(v.Title),
		2*heatMargin+textStyle(11, false, quiet).Width(v.Subtitle))
	l.height = l.top + vg.Length(len(l.rows))*cellHeight + intervalFoot
	return l, nil
}

func (v Intervals) draw(c draw.Canvas, l intervalLayout) {
	c.SetColor(paper)
	c.Fill(c.Rectangle.Path())
	heading(c, v.Title, v.Subtitle)
	right, bottom := c.Max.X-heatMargin, c.Max.Y-l.top-vg.Length(len(l.rows))*cellHeight
	at := func(x float64) vg.Length {
		return c.Min.X + l.left + (right-c.Min.X-l.left)*vg.Length((x-l.low)/(l.high-l.low))
	}
	tick := textStyle(10, false, quiet)
	tick.XAlign, tick.YAlign = draw.XCenter, draw.YTop
	for _, one := range linearTicks(l.low, l.high) {
		line := draw.LineStyle{Color: gridLine, Width: 0.75}
		if math.Abs(one.Value) < tickSlack*(l.high-l.low) {
			line = draw.LineStyle{Color: quiet, Width: 1}
		}
		c.StrokeLine2(line, at(one.Value), bottom, at(one.Value), c.Max.Y-l.top)
		c.FillText(tick, vg.Point{X: at(one.Value), Y: bottom - 4}, one.Label)
	}
	below := textStyle(10.5, false, quiet)
	below.XAlign, below.YAlign = draw.XRight, draw.YTop
	text := v.X
	if l.rest != "" {
		text += "; " + l.rest
	}
	c.FillText(below, vg.Point{X: right, Y: bottom - 22}, text)
	for i, row := range l.rows {
		y := c.Max.Y - l.top - (vg.Length(i)+0.5)*cellHeight
		label := textStyle(10, false, ink)
		label.XAlign, label.YAlign = draw.XRight, draw.YCenter
		c.FillText(label, vg.Point{X: c.Min.X + l.left - 8, Y: y}, row.Name)
		colour := Grey
		if row.Low > 0 || row.High < 0 {
			colour = Colour(0)
		}
		if row.Low <= row.High {
			c.StrokeLine2(draw.LineStyle{Color: colour, Width: 1.75}, at(math.Max(row.Low, l.low)), y,
				at(math.Min(row.High, l.high)), y)
		}
		c.DrawGlyph(draw.GlyphStyle{Color: colour, Radius: 3.5, Shape: draw.CircleGlyph{}},
			vg.Point{X: at(row.Value), Y: y})
	}
}

// heading writes a title and what is below it; both may be empty.
func heading(c draw.Canvas, title, subtitle string) {
	y := c.Max.Y - heatMargin
	for _, line := range []struct {
		text  string
		style draw.TextStyle
		room  vg.Length
	}{{title, textStyle(15, true, ink), 24}, {subtitle, textStyle(11, false, quiet), 18}} {
		if line.text != "" {
			line.style.YAlign = draw.YTop
			c.FillText(line.style, vg.Point{X: c.Min.X + heatMargin, Y: y}, line.text)
			y -= line.room
		}
	}
}
