package page

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// The plots' geometry, in units of the picture; a browser scales it. There is room for the axes' numbers at the left
// and below.
const (
	plotWidth, plotHeight = 640, 240
	marginLeft            = 56
	marginRight           = 36
	marginTop             = 12
	marginBottom          = 46
	// decades is the ratio of largest and smallest value from which the budget's axis is logarithmic.
	decades = 50
)

// plot is a picture with its words.
type plot struct {
	ID, Title, Alt string // Alt says in words what the picture shows
	Below          string // the axis
	Width, Height  int
	Wide           bool // as the page; its text is larger on a narrow screen
	Left, Right    int  // of the drawn area
	Top, Bottom    int
	Lines          []line
	Bands          []string // points of polygons
	Ticks          []tick   // of the vertical axis
	Marks          []tick   // of the horizontal axis
	Legend         []line
	Note           string // what is not in the picture
}

// line is a series: it is broken where there is no value.
type line struct {
	Class, Name string
	Parts       []string // points of polylines
	Dots        []dot    // parts of one point
}

type dot struct{ X, Y string }

type tick struct {
	At   string
	Text string
}

// series are values by index; NaN and infinities are none.
type series struct {
	class, name string
	values      []float64
}

func none(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }

// scale maps values to heights.
type scale struct {
	low, high   float64
	logarithmic bool
}

// scaleOf covers the values, and zero unless it is logarithmic or free.
func scaleOf(all []series, free, logarithmic bool) (s scale, ok bool) {
	s = scale{math.Inf(1), math.Inf(-1), logarithmic}
	smallest := math.Inf(1)
	for _, x := range all {
		for _, v := range x.values {
			if none(v) {
				continue
			}
			s.low, s.high, ok = math.Min(s.low, v), math.Max(s.high, v), true
			if v > 0 {
				smallest = math.Min(smallest, v)
			}
		}
	}
	if !ok {
		return s, false
	}
	if s.logarithmic = logarithmic && s.high/smallest > decades && !math.IsInf(smallest, 0); s.logarithmic {
		s.low, s.high = math.Pow(10, math.Floor(math.Log10(smallest))), math.Pow(10, math.Ceil(math.Log10(s.high)))
		return s, true
	}
	if !free {
		s.low = math.Min(0, s.low)
	}
	if s.high == s.low {
		s.high = s.low + math.Max(1, math.Abs(s.low))
	}
	step := s.step()
	s.low, s.high = math.Floor(s.low/step)*step, math.Ceil(s.high/step)*step
	return s, true
}

// step is the distance of ticks: about five, at 1, 2 or 5 times a power of ten.
func (s scale) step() float64 {
	raw := (s.high - s.low) / 5
	power := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 5} {
		if raw <= m*power*(1+1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// share is how far up a value is, from 0 to 1.
func (s scale) share(v float64) float64 {
	low, high := s.low, s.high
	if s.logarithmic {
		v, low, high = math.Log10(math.Max(v, s.low)), math.Log10(low), math.Log10(high)
	}
	return (v - low) / (high - low)
}

// ticks are the values at which the axis has numbers.
func (s scale) ticks() (all []float64) {
	if s.logarithmic {
		for v := s.low; v <= s.high*1.001; v *= 10 {
			all = append(all, v)
		}
		return all
	}
	step := s.step()
	for i := 0; s.low+float64(i)*step <= s.high+step/2; i++ {
		v := s.low + float64(i)*step
		if math.Abs(v) < step*1e-9 {
			v = 0
		}
		all = append(all, v)
	}
	return all
}

func coordinate(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// axes makes the frame of a picture over n places in a row, which labels name.
func (p *plot) axes(s scale, labels []string) (x func(int) float64, y func(float64) float64) {
	p.Left, p.Right, p.Top, p.Bottom = marginLeft, p.Width-marginRight, marginTop, p.Height-marginBottom
	x = func(i int) float64 {
		if len(labels) < 2 {
			return float64(p.Left+p.Right) / 2
		}
		return float64(p.Left) + float64(i)/float64(len(labels)-1)*float64(p.Right-p.Left)
	}
	y = func(v float64) float64 { return float64(p.Bottom) - s.share(v)*float64(p.Bottom-p.Top) }
	for _, v := range s.ticks() {
		p.Ticks = append(p.Ticks, tick{coordinate(y(v)), strconv.FormatFloat(v, 'g', 6, 64)})
	}
	const marks = 6
	for k := range min(marks, len(labels)) {
		i := k * max(1, len(labels)-1) / max(1, min(marks, len(labels))-1)
		p.Marks = append(p.Marks, tick{coordinate(x(min(i, len(labels)-1))), labels[min(i, len(labels)-1)]})
	}
	return x, y
}

// draw adds a series.
func (p *plot) draw(one series, x func(int) float64, y func(float64) float64) {
	l := line{Class: one.class, Name: one.name}
	var part []string
	end := func() {
		if len(part) == 1 {
			px, py, _ := strings.Cut(part[0], ",")
			l.Dots = append(l.Dots, dot{px, py})
		} else if len(part) > 1 {
			l.Parts = append(l.Parts, strings.Join(part, " "))
		}
		part = nil
	}
	for i, v := range one.values {
		if none(v) {
			end()
			continue
		}
		part = append(part, coordinate(x(i))+","+coordinate(y(v)))
	}
	end()
	p.Lines = append(p.Lines, l)
	p.Legend = append(p.Legend, l)
}

// chart is a plot of series over rounds.
func chart(id, title, alt string, labels []string, all []series, logarithmic bool) (plot, bool) {
	p := plot{ID: id, Title: title, Alt: alt, Below: "round (epoch.round)", Width: plotWidth, Height: plotHeight,
		Wide: true}
	s, ok := scaleOf(all, false, logarithmic)
	if !ok {
		return p, false
	}
	x, y := p.axes(s, labels)
	for _, one := range all {
		missing := 0
		for _, v := range one.values {
			if math.IsInf(v, 0) {
				missing++
			}
		}
		if missing > 0 {
			p.Note += fmt.Sprintf("Not in the picture: %s, which nothing bounds in %d of %d rounds.", one.name, missing,
				len(one.values))
		}
		if missing < len(one.values) {
			p.draw(one, x, y)
		}
	}
	if s.logarithmic {
		p.Note = strings.TrimSpace(p.Note + " The vertical axis is logarithmic.")
	}
	return p, true
}

// plots draws everything.
func (v *view) plots() {
	labels := make([]string, len(v.Rounds))
	of := func(class, name string, f func(audit.Row) float64) series {
		s := series{class, name, make([]float64, len(v.Rounds))}
		for i, one := range v.Rounds {
			s.values[i] = f(one)
		}
		return s
	}
	least, most, spent := math.Inf(1), 0.0, 0.0
	for i, one := range v.Rounds {
		labels[i] = fmt.Sprintf("%d.%d", one.Epoch, one.Round)
		least, most = math.Min(least, float64(one.Reports)), math.Max(most, float64(one.Reports))
		if one.Left {
			spent = math.Max(spent, float64(one.Epsilon))
		}
	}
	add := func(p plot, ok bool) {
		if ok {
			v.Plots = append(v.Plots, p)
		}
	}
	add(chart("cohorts", "Cohorts: devices and reports of each round",
		fmt.Sprintf("Over %d rounds, the shuffler states between %.0f and %.0f reports in a round. Of fewer than the "+
			"minimum nothing may leave.", len(v.Rounds), least, most), labels, []series{
			of("a", "devices enrolled", func(r audit.Row) float64 { return float64(r.Enrolled) }),
			of("b", "reports", func(r audit.Row) float64 { return float64(r.Reports) }),
			of("limit", "minimum", func(r audit.Row) float64 { return float64(r.Minimum) }),
		}, false))
	if v.Refused > 0 {
		add(chart("refused", "Reports refused in each round", fmt.Sprintf("Over %d rounds, %d reports were refused.",
			len(v.Rounds), v.Refused), labels, []series{
			of("a", "reports refused", func(r audit.Row) float64 {
				n := 0.0
				for _, why := range r.Refused {
					n += float64(why.Reports)
				}
				return n
			}),
		}, false))
	}
	add(chart("budget", "Privacy budget: what each cohort spent of its promise",
		fmt.Sprintf("The promise is epsilon %v. The most that a cohort spent is %s, counted or not. %s", v.Promise,
			spellFloat(spent), v.adds()), labels, []series{
			of("limit", "promised by the terms", func(audit.Row) float64 { return v.Promise }),
			of("a", "epsilon with the reports that left", func(r audit.Row) float64 {
				if !r.Left {
					return math.NaN()
				}
				return float64(r.Epsilon)
			}),
			of("b", "epsilon if no other device is honest", func(r audit.Row) float64 { return float64(r.Alone) }),
		}, true))
	v.coefficients()
}

// adds reports whether what cohorts spent adds up.
func (v *view) adds() string {
	if v.Panel == nil {
		return "Each line is per person of that round's cohort. It adds up for who is in several, which a device's " +
			"owner can allow."
	}
	return fmt.Sprintf("Each line is per person of that epoch's panel. A person can be in several panels, and then it "+
		"adds up: to %s so far, for who was in as many as can be.", spell(v.EpsilonSoFar))
}

// coefficients draws a panel of each coefficient over the epochs, with its interval.
func (v *view) coefficients() {
	var labels []string
	var ends []audit.Row // last round of each epoch that has an estimate
	for _, one := range v.Rounds {
		switch n := len(ends); {
		case len(one.Coefficients) == 0 || n > 0 && len(one.Coefficients) != len(ends[0].Coefficients):
		case n > 0 && ends[n-1].Epoch == one.Epoch:
			ends[n-1] = one
		default:
			ends, labels = append(ends, one), append(labels, strconv.FormatUint(one.Epoch, 10))
		}
	}
	if len(ends) == 0 {
		return
	}
	last := ends[len(ends)-1]
	v.Interval = last.Interval
	v.Left = max(0, len(last.Coefficients)-panels)
	for i := range last.Coefficients[:len(last.Coefficients)-v.Left] {
		name := fmt.Sprintf("Coefficient %d", i+1)
		if i < len(v.Terms) {
			name = v.Terms[i]
		}
		v.Learned = append(v.Learned, panel(i, name, ends, labels))
	}
}

// panel draws the coefficient of that name.
func panel(i int, name string, ends []audit.Row, labels []string) plot {
	mid := series{"a", "estimate", make([]float64, len(ends))}
	low, high := make([]float64, len(ends)), make([]float64, len(ends))
	for k, one := range ends {
		half := math.NaN()
		if i < len(one.HalfWidth) {
			half = one.HalfWidth[i]
		}
		mid.values[k] = one.Coefficients[i]
		low[k], high[k] = one.Coefficients[i]-half, one.Coefficients[i]+half
	}
	last := len(ends) - 1
	alt := fmt.Sprintf("%s over %d epochs: at the end %.3g", name, len(ends), mid.values[last])
	if !none(low[last]) {
		alt += fmt.Sprintf(", interval from %.3g to %.3g", low[last], high[last])
	}
	p := plot{ID: fmt.Sprintf("coefficient-%d", i+1), Title: name, Alt: alt + ".",
		Below: "epoch", Width: plotWidth / 2, Height: plotHeight * 3 / 4}
	s, ok := scaleOf([]series{mid, {values: low}, {values: high}}, true, false)
	if !ok {
		return p
	}
	x, y := p.axes(s, labels)
	var up, down []string
	end := func() {
		if len(up) > 0 {
			p.Bands = append(p.Bands, strings.Join(append(up, down...), " "))
		}
		up, down = nil, nil
	}
	for k := range ends {
		if none(low[k]) || none(high[k]) {
			end()
			continue
		}
		at := coordinate(x(k))
		up = append(up, at+","+coordinate(y(high[k])))
		down = append([]string{at + "," + coordinate(y(low[k]))}, down...)
	}
	end()
	p.draw(mid, x, y)
	return p
}

func spellFloat(v float64) string { return spell(privacy.Epsilon(v)) }
