// Package chart shows the results of runs: tables for a terminal ([Columns]), the result of one deployed run as a table
// and as JSON ([Result]), and line charts as PNG or SVG ([Chart]).
//
// A Chart has labels next to its lines. It serves for regret over people, for regret with a band over seeds, and for a
// frontier on a logarithmic axis. The same values give the same bytes on one architecture. The package computes no
// statistics: callers give it the values to draw.
package chart

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// ErrChart reports a chart that cannot be drawn.
var ErrChart = errors.New("chart: cannot draw")

// Size of a chart unless set, and the resolution of its PNG.
const (
	DefaultWidth  = 760 // points, 1/72 inch
	DefaultHeight = 440 // points
	PNGResolution = 144 // dots per inch: two pixels for each point
)

// Series is one line of a chart.
type Series struct {
	Name      string    // label next to the line's right end
	X, Y      []float64 // same length, at least one point, finite; X ascending
	Low, High []float64 // a band around the line; both empty or as long as X
	Colour    color.Color
	Width     float64 // of the line in points; 0 = 1.75
	Dashed    bool
	Dots      bool // mark each point, as for a frontier of measured points
}

// Chart is a line chart. Texts may be empty.
type Chart struct {
	Title    string  // one line: what the chart shows
	Subtitle string  // one line: what it was measured on
	X, Y     string  // names of the axes, with units
	LogX     bool    // logarithmic horizontal axis: all X positive
	LogY     bool    // logarithmic vertical axis: all Y and Low positive
	YMin     float64 // lowest value shown on a linear vertical axis unless a value lies below it; use 0 for sums
	Series   []Series
	WholeX   bool      // X counts, as epochs do: only whole numbers have ticks
	Places   []string  // names of the X 1, 2, ... of a linear axis on which nothing lies between; none: numbers
	Width    float64   // points; 0 = DefaultWidth
	Height   float64   // points; 0 = DefaultHeight
	Marks    []Mark    // moments to point out
	room     vg.Length // to the right of the plot, at least
}

// Save draws the chart into a file; the extension, .png or .svg, sets the format. The file appears whole or not at all.
func (c Chart) Save(path string) error {
	var b []byte
	var err error
	switch strings.ToLower(filepath.Ext(path)) {
	case ".png":
		b, err = c.PNG()
	case ".svg":
		b, err = c.SVG()
	default:
		return fmt.Errorf("%w: %q: the extension must be .png or .svg", ErrChart, path)
	}
	if err != nil {
		return err
	}
	return writeFile(path, b)
}

// PNG draws the chart at PNGResolution: two pixels for each point of its width and height.
func (c Chart) PNG() ([]byte, error) {
	w, h, err := c.prepare()
	if err != nil {
		return nil, err
	}
	canvas := vgimg.NewWith(vgimg.UseWH(w, h), vgimg.UseDPI(PNGResolution))
	if err := c.draw(draw.New(canvas)); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if _, err := (vgimg.PngCanvas{Canvas: canvas}).WriteTo(&b); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrChart, err)
	}
	return b.Bytes(), nil
}

// SVG draws the chart as SVG with text as text. The font is not embedded; where it is missing a viewer takes one of
// equal widths.
func (c Chart) SVG() ([]byte, error) {
	w, h, err := c.prepare()
	if err != nil {
		return nil, err
	}
	canvas := vgsvg.New(w, h)
	if err := c.draw(draw.New(canvas)); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrChart, err)
	}
	return withFallback(b.Bytes()), nil
}

// withFallback names fonts of equal widths: without them a browser that lacks the font takes its serif default.
func withFallback(svg []byte) []byte {
	return bytes.ReplaceAll(svg, []byte("font-family:Liberation Sans;"),
		[]byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif;"))
}

// prepare checks the chart and fills in its defaults. The receiver of PNG and SVG is a copy, but its slices are the
// caller's: they are not written to.
func (c *Chart) prepare() (w, h vg.Length, err error) {
	if c.Width == 0 {
		c.Width = DefaultWidth
	}
	if c.Height == 0 {
		c.Height = DefaultHeight
	}
	if !(c.Width >= 200 && c.Width <= 5000 && c.Height >= 150 && c.Height <= 5000) {
		return 0, 0, fmt.Errorf("%w: size %v x %v points; width must be in [200, 5000], height in [150, 5000]",
			ErrChart, c.Width, c.Height)
	}
	if len(c.Series) == 0 {
		return 0, 0, fmt.Errorf("%w: no series", ErrChart)
	}
	for _, s := range c.Series {
		if err := c.check(s); err != nil {
			return 0, 0, fmt.Errorf("%w: series %q: %w", ErrChart, s.Name, err)
		}
	}
	return vg.Points(c.Width), vg.Points(c.Height), nil
}

func (c *Chart) check(s Series) error {
	if len(s.X) == 0 || len(s.X) != len(s.Y) {
		return fmt.Errorf("%d values of X and %d of Y; they must be equally many, and at least one", len(s.X), len(s.Y))
	}
	if len(s.Low) != len(s.High) || (len(s.Low) != 0 && len(s.Low) != len(s.X)) {
		return fmt.Errorf("band of %d low and %d high values around %d points", len(s.Low), len(s.High), len(s.X))
	}
	for _, axis := range []struct {
		name   string
		values []float64
		log    bool
	}{{"X", s.X, c.LogX}, {"Y", s.Y, c.LogY}, {"Low", s.Low, c.LogY}, {"High", s.High, c.LogY}} {
		for i, v := range axis.values {
			if math.IsNaN(v) || math.IsInf(v, 0) || (axis.log && v <= 0) {
				return fmt.Errorf("%s[%d] = %v cannot be shown on its axis", axis.name, i, v)
			}
		}
	}
	for i := 1; i < len(s.X); i++ {
		if s.X[i] < s.X[i-1] {
			return fmt.Errorf("value %v, X[%d], is below the one before it", s.X[i], i)
		}
	}
	return nil
}

// draw lays the chart out: title and axis name on top, labels of the lines to the right, the plot in what is left.
func (c *Chart) draw(canvas draw.Canvas) error {
	canvas.SetColor(paper)
	canvas.Fill(canvas.Rectangle.Path())

	p, err := c.plot()
	if err != nil {
		return err
	}
	labels := c.labels()
	const margin = 20
	top := c.header(draw.Crop(canvas, margin, -margin, 0, -margin))
	inner := draw.Crop(canvas, margin, -margin-max(c.room, labels.width()), margin-4, 0)
	inner.Max.Y = top
	p.Draw(inner)

	data := p.DataCanvas(inner)
	_, toY := p.Transforms(&data)
	labels.place(data, toY)
	return nil
}

// header writes the texts above the plot and returns where they end.
func (c *Chart) header(area draw.Canvas) vg.Length {
	y := area.Max.Y
	for _, line := range []struct {
		text  string
		style draw.TextStyle
		after vg.Length
	}{
		{c.Title, textStyle(15, true, ink), 5},
		{c.Subtitle, textStyle(11, false, quiet), 0},
		{c.Y, textStyle(10.5, false, quiet), 0},
	} {
		if line.text == "" {
			continue
		}
		if line.text == c.Y {
			y -= 14 // sets the axis name apart from the titles
		}
		line.style.YAlign = draw.YTop
		area.FillText(line.style, vg.Point{X: area.Min.X, Y: y}, line.text)
		y -= line.style.Font.Size + line.after
	}
	return y - 8
}

// plot builds axes and lines.
func (c *Chart) plot() (*plot.Plot, error) {
	p := plot.New()
	p.BackgroundColor = color.Transparent
	axis(&p.X, c.LogX)
	axis(&p.Y, c.LogY)
	if at := c.ticksAtDots(); c.LogX && at != nil {
		p.X.Tick.Marker = plot.ConstantTicks(at)
	}
	if c.WholeX && !c.LogX {
		p.X.Tick.Marker = plot.TickerFunc(wholeTicks)
	}
	if len(c.Places) > 0 && !c.LogX {
		p.X.Tick.Marker = c.places()
	}
	p.X.Padding, p.Y.Padding = 0, 4
	p.X.Label.Text = c.X
	align := p.X.Label.TextStyle
	p.X.Label.TextStyle = textStyle(10.5, false, quiet)
	p.X.Label.TextStyle.XAlign, p.X.Label.TextStyle.YAlign = align.XAlign, align.YAlign
	p.X.Label.Padding = 6
	p.Y.LineStyle.Width = 0
	p.Y.Tick.LineStyle.Width = 0

	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	grid.Horizontal = draw.LineStyle{Color: gridLine, Width: 0.75}
	p.Add(grid)
	for i, s := range c.Series { // bands first: no line lies under another's band
		if len(s.Low) == 0 {
			continue
		}
		ring := make(plotter.XYs, 0, 2*len(s.X))
		for j := range s.X {
			ring = append(ring, plotter.XY{X: s.X[j], Y: s.High[j]})
		}
		for j := len(s.X) - 1; j >= 0; j-- {
			ring = append(ring, plotter.XY{X: s.X[j], Y: s.Low[j]})
		}
		band, err := plotter.NewPolygon(ring)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrChart, err)
		}
		band.LineStyle.Width = 0
		band.Color = fade(c.colour(i), 0x2e)
		p.Add(band)
	}
	for i := len(c.Series) - 1; i >= 0; i-- { // the first series is the subject: it is drawn last, on top
		if err := c.add(p, i); err != nil {
			return nil, err
		}
	}
	for _, m := range c.Marks {
		p.Add(m)
	}
	c.ranges(p)
	return p, nil
}

func (c *Chart) add(p *plot.Plot, i int) error {
	s := c.Series[i]
	points := make(plotter.XYs, len(s.X))
	for j := range points {
		points[j] = plotter.XY{X: s.X[j], Y: s.Y[j]}
	}
	line, err := plotter.NewLine(points)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrChart, err)
	}
	width := s.Width
	if width == 0 {
		width = 1.75
	}
	line.LineStyle = draw.LineStyle{Color: c.colour(i), Width: vg.Points(width)}
	if s.Dashed {
		line.LineStyle.Dashes = []vg.Length{5, 3}
	}
	p.Add(line)
	if s.Dots || len(s.X) == 1 {
		dots, err := plotter.NewScatter(points)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrChart, err)
		}
		dots.GlyphStyle = draw.GlyphStyle{Color: c.colour(i), Radius: vg.Points(width + 1.25),
			Shape: draw.CircleGlyph{}}
		p.Add(dots)
	}
	return nil
}

// ranges sets the ends of the axes to round numbers.
func (c *Chart) ranges(p *plot.Plot) {
	xs, ys := span{}, span{}
	for _, s := range c.Series {
		xs.cover(s.X)
		ys.cover(s.Y)
		ys.cover(s.Low)
		ys.cover(s.High)
	}
	p.X.Min, p.X.Max = xs.low, xs.high
	if c.LogY {
		p.Y.Min, p.Y.Max = ys.low/1.1, ys.high*1.1
	} else {
		p.Y.Min, p.Y.Max = roundRange(math.Min(ys.low, c.YMin), ys.high)
	}
	switch {
	case p.X.Min < p.X.Max:
	case c.LogX:
		p.X.Min, p.X.Max = p.X.Min/2, p.X.Max*2
	default:
		p.X.Min, p.X.Max = p.X.Min-1, p.X.Max+1
	}
}

// span is the range of the values it has covered.
type span struct {
	low, high float64
	any       bool
}

func (s *span) cover(values []float64) {
	for _, v := range values {
		if !s.any {
			s.low, s.high, s.any = v, v, true
		}
		s.low, s.high = math.Min(s.low, v), math.Max(s.high, v)
	}
}

// writeFile puts content at path in one step, so that no reader finds half a file.
func writeFile(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".chart-*")
	if err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	defer os.Remove(f.Name()) // fails once the file has its name, as it should
	_, err = f.Write(content)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	return nil
}
