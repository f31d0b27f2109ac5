package chart

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// Mark is a vertical line at a place of the horizontal axis, with a text above it.
type Mark struct {
	X    float64
	Text string
}

// Plot draws the mark over the whole height.
func (m Mark) Plot(c draw.Canvas, p *plot.Plot) {
	toX, _ := p.Transforms(&c)
	at := toX(m.X)
	c.StrokeLine2(draw.LineStyle{Color: ink, Width: 1, Dashes: []vg.Length{2, 2}}, at, c.Min.Y, at, c.Max.Y)
	style := textStyle(10.5, false, ink)
	style.XAlign, style.YAlign = draw.XCenter, draw.YBottom
	c.FillText(style, vg.Point{X: at, Y: c.Max.Y + 4}, m.Text)
}

// Stack is several charts below each other, whose plots begin and end at the same places from left to right.
type Stack []Chart

// Save draws the charts into one PNG file, which appears whole or not at all.
func (s Stack) Save(path string) error {
	if ext := strings.ToLower(filepath.Ext(path)); ext != ".png" {
		return fmt.Errorf("%w: %q: the extension of charts below each other must be .png", ErrChart, path)
	}
	b, err := s.PNG()
	if err != nil {
		return err
	}
	return writeFile(path, b)
}

// PNG draws the charts at PNGResolution.
func (s Stack) PNG() ([]byte, error) {
	if len(s) == 0 {
		return nil, fmt.Errorf("%w: no chart", ErrChart)
	}
	charts := append(Stack(nil), s...)
	var width, height, room vg.Length
	for i := range charts {
		w, h, err := charts[i].prepare()
		if err != nil {
			return nil, err
		}
		width, height, room = max(width, w), height+h, max(room, charts[i].labels().width())
	}
	canvas := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(PNGResolution))
	whole := draw.New(canvas)
	top := height
	for i := range charts {
		h := vg.Points(charts[i].Height)
		part := draw.Crop(whole, 0, 0, top-h, top-height)
		charts[i].room = room
		if err := charts[i].draw(part); err != nil {
			return nil, err
		}
		top -= h
	}
	var b bytes.Buffer
	if _, err := (vgimg.PngCanvas{Canvas: canvas}).WriteTo(&b); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrChart, err)
	}
	return b.Bytes(), nil
}
