package chart

import (
	"fmt"
	"image/color"
)

// Regret is a regret curve: the reward that a policy had missed after each number of people.
type Regret struct {
	Name   string
	People []float64 // from 0, ascending
	Regret []float64
}

// RegretChart shows cumulative regret. The first curve is the subject. Curves named in scale are drawn grey and dashed:
// they only give a scale. Each label has the curve's last value.
func RegretChart(title, subtitle string, curves []Regret, scale ...string) Chart {
	c := Chart{Title: title, Subtitle: subtitle, X: "people decided for", Y: "cumulative regret (reward missed)"}
	grey := map[string]bool{}
	for _, name := range scale {
		grey[name] = true
	}
	for i, r := range curves {
		s := Series{Name: r.Name, X: r.People, Y: r.Regret}
		if n := len(r.Regret); n > 0 {
			s.Name = fmt.Sprintf("%s  %s", r.Name, Number(r.Regret[n-1], 0))
		}
		if i == 0 {
			s.Width = 2.5
		}
		if grey[r.Name] {
			s.Colour, s.Dashed, s.Width = greys[len(c.Series)%len(greys)], true, 1.5
		}
		c.Series = append(c.Series, s)
	}
	return c
}

// greys alternate, so that two grey lines can be told apart.
var greys = []color.Color{Grey, color.RGBA{0x9a, 0x8a, 0x78, 0xff}}
