package chart

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The look of the pictures. Series colours are told apart by people with any of the common kinds of colour blindness
// (Okabe and Ito, "Color Universal Design", 2008; the yellow is left out, it is too light for lines).
var (
	paper    = color.RGBA{0xff, 0xff, 0xff, 0xff}
	ink      = color.RGBA{0x1a, 0x1f, 0x2b, 0xff}
	quiet    = color.RGBA{0x5b, 0x64, 0x72, 0xff}
	gridLine = color.RGBA{0xe4, 0xe7, 0xec, 0xff}

	palette = []color.Color{
		color.RGBA{0x00, 0x5a, 0xb5, 0xff}, // blue: the subject
		color.RGBA{0x00, 0x8a, 0x63, 0xff}, // green
		color.RGBA{0xd5, 0x5e, 0x00, 0xff}, // vermilion
		color.RGBA{0xa8, 0x4f, 0x88, 0xff}, // purple
		color.RGBA{0x2f, 0x95, 0xc9, 0xff}, // sky
		color.RGBA{0xb8, 0x7b, 0x00, 0xff}, // orange
	}
)

// Grey is for lines that only give a scale, such as uniform play.
var Grey color.Color = color.RGBA{0x7a, 0x83, 0x90, 0xff}

// Colour is colour i of the pictures, from 0 on, for series that belong together; there are six.
func Colour(i int) color.Color { return palette[i%len(palette)] }

// colour returns the colour of series i.
func (c *Chart) colour(i int) color.Color {
	if c.Series[i].Colour != nil {
		return c.Series[i].Colour
	}
	return Colour(i)
}

// fade returns a colour with the given opacity.
func fade(c color.Color, alpha uint8) color.Color {
	n := color.NRGBAModel.Convert(c).(color.NRGBA)
	n.A = alpha
	return n
}

// boldWeight is WeightBold of golang.org/x/image/font.
const boldWeight = 3

// textStyle returns the one typeface of the pictures.
func textStyle(size float64, bold bool, c color.Color) draw.TextStyle {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(size)}
	if bold {
		f.Weight = boldWeight
	}
	return draw.TextStyle{Color: c, Font: f, Handler: text.Plain{Fonts: font.DefaultCache}}
}

// axis styles an axis and gives it round ticks.
func axis(a *plot.Axis, log bool) {
	a.LineStyle = draw.LineStyle{Color: quiet, Width: 0.75}
	a.Tick.LineStyle = draw.LineStyle{Color: quiet, Width: 0.75}
	a.Tick.Length = 4
	align := a.Tick.Label // gonum aligns the labels of its two axes differently; only the typeface is ours
	a.Tick.Label = textStyle(10.5, false, quiet)
	a.Tick.Label.XAlign, a.Tick.Label.YAlign = align.XAlign, align.YAlign
	a.Tick.Marker = plot.TickerFunc(linearTicks)
	if log {
		a.Scale = plot.LogScale{}
		a.Tick.Marker = plot.TickerFunc(logTicks)
	}
}
