package bench

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/riffle-dp/riffle/internal/chart"
)

// ratesChart shows how many people a second the whole deployment takes, against the cohort's size, by channel. Of one
// size there is nothing to show.
func (r *Result) ratesChart() (chart.Chart, bool) {
	c := chart.Chart{Title: "People a second, end to end", Subtitle: r.Machine.short(), X: "people in the cohort",
		Y: "reports a second of wall time, all roles on this machine", LogX: true, LogY: true}
	for _, channel := range r.channels() {
		s := chart.Series{Name: channel, Dots: true}
		for _, row := range r.Rows {
			if row.Role == RoleAll && row.Channel == channel && row.Dimension == r.Rows[0].Dimension {
				s.X, s.Y = append(s.X, float64(row.Users)), append(s.Y, row.PerSecond)
			}
		}
		if len(s.X) > 0 {
			c.Series = append(c.Series, s)
		}
	}
	return c, slices.ContainsFunc(c.Series, func(s chart.Series) bool { return len(s.X) > 1 })
}

// memoryChart shows the shuffler's memory against the messages of one release.
func (r *Result) memoryChart() (chart.Chart, bool) {
	c := chart.Chart{Title: "The shuffler's memory", Subtitle: "junk, through file-backed streams", LogX: true,
		X: "bit messages of one release", Y: "resident memory at most, MB"}
	few, many := chart.Series{Name: "large reports", Dots: true}, chart.Series{Name: "default plan", Dots: true}
	mixed := slices.Clone(r.Mixed)
	slices.SortFunc(mixed, func(a, b Mixed) int { return a.Messages - b.Messages })
	for _, m := range mixed {
		if m.ResidentBytes == 0 {
			continue
		}
		s := &many
		if m.Messages/m.Users > 1000 {
			s = &few
		}
		s.X, s.Y = append(s.X, float64(m.Messages)), append(s.Y, float64(m.ResidentBytes)/1e6)
	}
	for _, s := range []chart.Series{few, many} {
		if len(s.X) > 0 {
			c.Series = append(c.Series, s)
		}
	}
	return c, len(c.Series) > 0
}

// costChart shows the processor time of one person by role and channel.
func (r *Result) costChart() (chart.Chart, bool) {
	c := chart.Chart{Title: "Processor time of one person", Subtitle: "by role, largest run of each channel",
		LogY: true,
		X:    "", Y: "milliseconds of one core"}
	channels := r.channels()
	for _, role := range []string{RoleDevice, RoleBroker, RoleShuffler, RoleAnalyzer} {
		s := chart.Series{Name: role, Dots: true}
		for i, channel := range channels {
			if row := r.find(role, channel, r.Rows[0].Dimension); row != nil && row.CPUSecondsPerUser > 0 {
				s.X, s.Y = append(s.X, float64(i+1)), append(s.Y, 1000*row.CPUSecondsPerUser)
			}
		}
		if len(s.X) > 0 {
			c.Series = append(c.Series, s)
		}
	}
	c.Places = channels
	return c, len(c.Series) > 0
}

// channels are those that devices sealed for.
func (r *Result) channels() (all []string) {
	for _, row := range r.Rows {
		if row.Source == FromDevices && !slices.Contains(all, row.Channel) {
			all = append(all, row.Channel)
		}
	}
	return all
}

// charts are all pictures that the result has values for, by the name of their file.
func (r *Result) charts() (names []string, all []chart.Chart) {
	for _, one := range []struct {
		name string
		make func() (chart.Chart, bool)
	}{{"bench-rates.png", r.ratesChart}, {"bench-cost.png", r.costChart}, {"bench-memory.png", r.memoryChart}} {
		if c, ok := one.make(); ok {
			names, all = append(names, one.name), append(all, c)
		}
	}
	return names, all
}

// Draw draws the pictures into one .png file, one below the other, or the first of them into an .svg file.
func (r *Result) Draw(path string) error {
	_, all := r.charts()
	if strings.EqualFold(filepath.Ext(path), ".svg") && len(all) > 0 {
		return all[0].Save(path)
	}
	return chart.Stack(all).Save(path)
}

// drawEach draws each picture into a folder and returns the names of the files.
func (r *Result) drawEach(folder string) ([]string, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	names, all := r.charts()
	for i, c := range all {
		if err := c.Save(filepath.Join(folder, names[i])); err != nil {
			return nil, err
		}
	}
	return names, nil
}
