package chart

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Heat is a table of numbers in coloured cells: blue from 0 to 1, vermilion from 0 to -1, and the colour of the end
// beyond. Texts may be empty.
type Heat struct {
	Title    string
	Subtitle string
	Rows     []string    // names at the left, from top to bottom
	Columns  []string    // names on top, from left to right
	Cells    [][]float64 // of each row and column; NaN: nothing is known, and the cell stays empty
	Gaps     []int       // rows that have a little room above them, to set groups apart
}

// Sizes in points.
const (
	cellWidth  = 34
	cellHeight = 17
	heatMargin = 20
	heatGap    = 8
)

// Save draws the table into a file; the extension, .png or .svg, sets the format. The file appears whole or not at all.
func (h Heat) Save(path string) error {
	var b []byte
	var err error
	switch strings.ToLower(filepath.Ext(path)) {
	case ".png":
		b, err = h.PNG()
	case ".svg":
		b, err = h.SVG()
	default:
		return fmt.Errorf("%w: %q: the extension must be .png or .svg", ErrChart, path)
	}
	if err != nil {
		return err
	}
	return writeFile(path, b)
}

// PNG draws the table at PNGResolution.
func (h Heat) PNG() ([]byte, error) {
	l, err := h.layout()
	if err != nil {
		return nil, err
	}
	canvas := vgimg.NewWith(vgimg.UseWH(l.width, l.height), vgimg.UseDPI(PNGResolution))
	h.draw(draw.New(canvas), l)
	var b bytes.Buffer
	if _, err := (vgimg.PngCanvas{Canvas: canvas}).WriteTo(&b); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrChart, err)
	}
	return b.Bytes(), nil
}

// SVG draws the table as SVG with text as text.
func (h Heat) SVG() ([]byte, error) {
	l, err := h.layout()
	if err != nil {
		return nil, err
	}
	canvas := vgsvg.New(l.width, l.height)
	h.draw(draw.New(canvas), l)
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrChart, err)
	}
	return withFallback(b.Bytes()), nil
}

// heatLayout is where a table's parts are.
type heatLayout struct {
	left, top     vg.Length // of the first cell, from the left and from above
	width, height vg.Length
}

// layout checks the table and measures its names.
func (h Heat) layout() (l heatLayout, err error) {
	if len(h.Rows) == 0 || len(h.Columns) == 0 || len(h.Cells) != len(h.Rows) {
		return l, fmt.Errorf("%w: %d rows of cells for %d names, and %d columns", ErrChart, len(h.Cells), len(h.Rows),
			len(h.Columns))
	}
	names := textStyle(10, false, ink)
	var left, top vg.Length
	for i, row := range h.Rows {
		left = max(left, names.Width(row))
		if len(h.Cells[i]) != len(h.Columns) {
			return l, fmt.Errorf("%w: %d cells of row %q for %d columns", ErrChart, len(h.Cells[i]), row,
				len(h.Columns))
		}
	}
	for _, column := range h.Columns {
		top = max(top, names.Width(column))
	}
	l.left, l.top = heatMargin+left+8, heatMargin+top+8
	if h.Title != "" {
		l.top += 24
	}
	if h.Subtitle != "" {
		l.top += 18
	}
	l.width = l.left + vg.Length(len(h.Columns))*cellWidth + heatMargin
	l.width = max(l.width, 2*heatMargin+textStyle(15, true, ink).Width(h.Title),
		2*heatMargin+textStyle(11, false, quiet).Width(h.Subtitle))
	l.height = l.top + vg.Length(len(h.Rows))*cellHeight + vg.Length(len(h.Gaps))*heatGap + heatMargin
	return l, nil
}

func (h Heat) draw(c draw.Canvas, l heatLayout) {
	c.SetColor(paper)
	c.Fill(c.Rectangle.Path())
	heading(c, h.Title, h.Subtitle)
	upright := textStyle(10, false, ink)
	upright.Rotation, upright.YAlign = math.Pi/2, draw.YCenter
	for j, name := range h.Columns {
		c.FillText(upright, vg.Point{X: c.Min.X + l.left + (vg.Length(j)+0.5)*cellWidth, Y: c.Max.Y - l.top + 6}, name)
	}
	top := c.Max.Y - l.top
	for i, name := range h.Rows {
		for _, g := range h.Gaps {
			if g == i {
				top -= heatGap
			}
		}
		label := textStyle(10, false, ink)
		label.XAlign, label.YAlign = draw.XRight, draw.YCenter
		c.FillText(label, vg.Point{X: c.Min.X + l.left - 6, Y: top - cellHeight/2}, name)
		for j, v := range h.Cells[i] {
			h.cell(c, v, c.Min.X+l.left+vg.Length(j)*cellWidth, top)
		}
		top -= cellHeight
	}
}

// cell draws a number with its upper left corner at a place.
func (h Heat) cell(c draw.Canvas, v float64, x, y vg.Length) {
	fill, text := heatColour(v)
	box := vg.Rectangle{Min: vg.Point{X: x + 0.5, Y: y - cellHeight + 0.5}, Max: vg.Point{X: x + cellWidth - 0.5,
		Y: y - 0.5}}
	c.SetColor(fill)
	c.Fill(box.Path())
	if math.IsNaN(v) {
		return
	}
	style := textStyle(9, false, text)
	style.XAlign, style.YAlign = draw.XCenter, draw.YCenter
	number := fmt.Sprintf("%.2f", v)
	if math.Abs(v) >= 9.95 {
		number = fmt.Sprintf("%.0f", v)
	}
	c.FillText(style, vg.Point{X: x + cellWidth/2, Y: y - cellHeight/2}, number)
}

// heatColour is the colour of a number, and that of a text on it.
func heatColour(v float64) (fill, text color.Color) {
	if math.IsNaN(v) {
		return gridLine, ink
	}
	end := palette[0].(color.RGBA) // blue
	if v < 0 {
		end = palette[2].(color.RGBA) // vermilion
	}
	part := math.Min(1, math.Abs(v))
	mix := func(from, to uint8) uint8 { return uint8(math.Round(float64(from) + part*(float64(to)-float64(from)))) }
	text = ink
	if part > 0.55 {
		text = paper
	}
	return color.RGBA{mix(paper.R, end.R), mix(paper.G, end.G), mix(paper.B, end.B), 0xff}, text
}
