package bench

import (
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/riffle-dp/riffle/internal/chart"
)

// grid is one table of a result: names to the left, numbers to the right.
type grid struct {
	title string   // a sentence or two: what the table shows
	left  int      // columns of names
	head  []string //
	rows  [][]string
}

// WriteTable writes the result for a terminal.
func (r *Result) WriteTable(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "%s\n", r.Machine); err != nil {
		return err
	}
	for _, g := range r.grids() {
		var head []any
		for _, h := range g.head {
			head = append(head, h)
		}
		t := chart.Columns{Left: g.left}.Table(head...)
		for _, row := range g.rows {
			var cells table.Row
			for _, c := range row {
				cells = append(cells, c)
			}
			t.AppendRow(cells)
		}
		if _, err := fmt.Fprintf(w, "\n%s\n%s\n", g.title, t.Render()); err != nil {
			return err
		}
	}
	return nil
}

// String names the machine.
func (m Machine) String() string {
	memory, load := "memory not known", "load not known"
	if m.Memory > 0 {
		memory = fmt.Sprintf("%.0f GiB", float64(m.Memory)/(1<<30))
	}
	if m.Load >= 0 {
		load = fmt.Sprintf("load %.2f before the run", m.Load)
	}
	s := fmt.Sprintf("%s, %d cores, %s, %s, %s, %s, %s", m.Processor, m.Cores, memory, m.System, m.Go, m.Date, load)
	if !m.Proc {
		s += "; without /proc: memory and some processor times are not known, and are 0 or a dash"
	}
	return s
}

// short names the machine in a picture.
func (m Machine) short() string { return fmt.Sprintf("%s, %d cores, %s", m.Processor, m.Cores, m.Date) }

// The numbers of tables.

func seconds(s float64) string {
	switch {
	case s == 0:
		return "–"
	case s < 1e-7:
		return fmt.Sprintf("%.3g ns", s*1e9)
	case s < 1e-3:
		return fmt.Sprintf("%.3g µs", s*1e6)
	case s < 1:
		return fmt.Sprintf("%.3g ms", s*1e3)
	case s < 100:
		return fmt.Sprintf("%.3g s", s)
	}
	return fmt.Sprintf("%.0f s", s)
}

func bytesOf(n float64) string {
	switch {
	case n <= 0:
		return "–"
	case n < 1e4:
		return fmt.Sprintf("%.0f B", n)
	case n < 1e6:
		return fmt.Sprintf("%.1f kB", n/1e3)
	case n < 1e9:
		return fmt.Sprintf("%.0f MB", n/1e6)
	}
	return fmt.Sprintf("%.2f GB", n/1e9)
}

func whole(n float64) string {
	if n <= 0 {
		return "–"
	}
	return chart.Number(n, 0)
}

func share(x float64) string {
	if x <= 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f %%", 100*x)
}

func (r *Result) grids() []grid {
	all := []grid{r.boundsGrid(), r.endToEndGrid(), r.rolesGrid(), r.mixedGrid(), r.memoryGrid(), r.workersGrid(),
		r.costGrid(), r.comparisonGrid(), r.publishedGrid()}
	var out []grid
	for _, g := range all {
		if len(g.rows) > 0 {
			out = append(out, g)
		}
	}
	return out
}

func (r *Result) boundsGrid() grid {
	g := grid{left: 1, head: []string{"One step", "time", "a second"},
		title: "Bounds: the least that a step can take, in processor time of one core; wall time of all cores where " +
			"it says so. The least of five measurements, of three with the broker."}
	for _, b := range r.Bounds {
		what := b.What
		if b.Wall && b.Name != boundBothCores {
			what += " (wall time)"
		}
		g.rows = append(g.rows, []string{what, seconds(b.Seconds), whole(1 / b.Seconds)})
	}
	return g
}

func (r *Result) endToEndGrid() grid {
	g := grid{left: 1, head: []string{"Channel", "d", "people", "messages each", "wall time", "reports/s", "messages/s",
		"CPU of all roles each", "bytes each", "servers' memory", "of the bound", "CPU of the bound"},
		title: "End to end: devices seal everything, and every sum was compared with the truth. Wall time is from " +
			"the first decision to the next policy, the reward window of two seconds included. \"Of the bound\" is " +
			"the bound of all cores, as if they were idle, over that wall time: other work on the machine lowers it. " +
			"\"CPU of the bound\" is the bounds of all roles over all processor time, which it hardly lowers."}
	for _, row := range r.Rows {
		if row.Role != RoleAll {
			continue
		}
		cpu := 0.0
		for _, one := range r.Rows {
			if one.Role != RoleAll && one.Channel == row.Channel && one.Users == row.Users &&
				one.Dimension == row.Dimension && one.Source == row.Source {
				cpu += one.CPUSecondsPerUser * one.RatioToBound
			}
		}
		g.rows = append(g.rows, []string{row.Channel, fmt.Sprint(row.Dimension), whole(float64(row.Users)),
			fmt.Sprint(row.Messages), seconds(row.WallSeconds), whole(row.PerSecond), whole(row.MessagesPerSecond),
			seconds(row.CPUSecondsPerUser), bytesOf(row.BytesPerUser), bytesOf(float64(row.ResidentBytes)),
			share(row.RatioToBound), share(cpu / row.CPUSecondsPerUser)})
	}
	return g
}

func (r *Result) rolesGrid() grid {
	g := grid{left: 2, head: []string{"Role", "channel", "d", "people", "load", "reports/s and core",
		"messages/s and core", "CPU each", "sent each", "received each", "memory", "memory each", "of the bound"},
		title: "Each role: processor time, bytes as the broker counted them, and the most memory that a process had. " +
			"\"Memory each\" is what a further person takes. Devices are all in one process with the people who use " +
			"them. Load: who made the reports; junk nobody can open, and the shuffler does all of its work on " +
			"it; kept reports were sealed once for several deployments."}
	for _, row := range r.Rows {
		if row.Role == RoleAll {
			continue
		}
		role := row.Role
		if row.Workers > 0 {
			role += fmt.Sprintf(" and %d workers", row.Workers)
		}
		g.rows = append(g.rows, []string{role, row.Channel, fmt.Sprint(row.Dimension), whole(float64(row.Users)),
			row.Source, whole(row.PerSecond), whole(row.MessagesPerSecond), seconds(row.CPUSecondsPerUser),
			bytesOf(row.SentPerUser), bytesOf(row.ReceivedPerUser), bytesOf(float64(row.ResidentBytes)),
			bytesOf(row.ResidentPerUser), share(row.RatioToBound)})
	}
	return g
}

func (r *Result) mixedGrid() grid {
	g := grid{left: 0, head: []string{"messages", "people", "enrolled in", "admitted in", "released in",
		"shuffler's CPU",
		"of it opening", "messages/s and core beyond opening", "messages/s from admission to manifest", "memory"},
		title: "The shuffler alone, on junk, through file-backed streams: all that arrived was compared with what " +
			"was sent. Opening is the bound of opening and verifying the reports."}
	for _, m := range r.Mixed {
		g.rows = append(g.rows, []string{whole(float64(m.Messages)), whole(float64(m.Users)), seconds(m.EnrolSeconds),
			seconds(m.AdmitSeconds), seconds(m.ReleaseSeconds), seconds(m.EnrolCPU + m.AdmitCPU + m.ReleaseCPU),
			seconds(m.OpeningCPU), whole(m.PerCore), whole(m.PerSecond), bytesOf(float64(m.ResidentBytes))})
	}
	return g
}

func (r *Result) memoryGrid() grid {
	g := grid{left: 1, head: []string{"Part", "CPU", "messages/s and core"},
		title: "Mixing in memory: the shuffler's own code for one release of junk, in this process, with memory in " +
			"place of disk and broker."}
	m := r.InMemory
	if m == nil {
		return g
	}
	for _, part := range []struct {
		name string
		cpu  float64
	}{
		{"keep the reports as they are admitted", m.TakeCPU},
		{"find repeated messages, and scatter to buckets", m.ScatterCPU},
		{"permute inside buckets", m.PermuteCPU},
		{"cut into chunks, and the digests of all messages for the manifest", m.SendCPU},
		{"the first three together", m.TakeCPU + m.ScatterCPU + m.PermuteCPU},
		{"all together", m.TakeCPU + m.ScatterCPU + m.PermuteCPU + m.SendCPU},
	} {
		g.rows = append(g.rows, []string{part.name, seconds(part.cpu), whole(float64(m.Messages) / part.cpu)})
	}
	return g
}

func (r *Result) workersGrid() grid {
	g := grid{left: 2, head: []string{"Channel", "killed", "workers", "people", "mixed/s", "counted/s",
		"shuffler's CPU",
		"its workers' CPU", "analyzer's CPU", "its workers' CPU", "largest process", "sums"},
		title: "Workers: the same reports through fresh deployments, each process on one core at a time " +
			"(GOMAXPROCS=1), and all of them on the cores of this machine. Messages a second of wall time, mixed: " +
			"from the first report to the manifest, counted: from the last admission to the counts. A killed process " +
			"is drawn at random, dies at a random moment and is started again half a second later. Reports that it " +
			"had fetched come again after the broker's wait of 30 seconds, which is then most of the time; in shares " +
			"much is counted before the last of them is admitted."}
	for _, w := range r.Workers {
		sums := "identical"
		if !w.Same {
			sums = "DIFFERENT"
		}
		killed := w.Killed
		if killed == "" {
			killed = "nothing"
		}
		g.rows = append(g.rows, []string{w.Channel, killed, fmt.Sprintf("%d + %d", w.Workers, w.Workers),
			whole(float64(w.Users)), whole(w.MixedPerSecond), whole(w.CountedPerSecond), seconds(w.ShufflerCPU),
			seconds(w.MixersCPU), seconds(w.AnalyzerCPU), seconds(w.CountersCPU), bytesOf(float64(w.ResidentBytes)),
			sums})
	}
	return g
}

func (r *Result) costGrid() grid {
	g := grid{left: 1, head: []string{"Channel", "d", "from a run of", "devices, h", "broker, h", "shuffler, h",
		"analyzer, h", "up, GB", "to shuffler, GB", "from shuffler, GB", "to analyzer, GB", "US dollars"},
		title: fmt.Sprintf("A million people, computed from what a person cost in the largest run: hours of one "+
			"core, 10^9 bytes by link, and money at %.4f dollars an hour of a core of the servers and %.2f dollars a "+
			"GB that leaves broker, shuffler or analyzer (%s). Devices are people's own.",
			r.Prices.CPUHour, r.Prices.GB, r.Prices.Source)}
	for _, c := range r.Costs {
		from := "–"
		if c.Users > 1 {
			from = whole(float64(c.Users))
		}
		row := []string{c.Channel, fmt.Sprint(c.Dimension), from}
		for _, v := range []float64{
			c.Device, c.Broker, c.Shuffler, c.Analyzer, c.Up, c.ToMix, c.Mixed, c.ToCount, c.Dollars,
		} {
			row = append(row, fmt.Sprintf("%.3g", v))
		}
		g.rows = append(g.rows, row)
	}
	return g
}

func (r *Result) comparisonGrid() grid {
	g := grid{left: 1, head: []string{"What", "d", "people", "device's CPU", "servers' CPU", "a device sends",
		"noise ratio", "a person must trust", "source"},
		title: "One person beside what one would otherwise take: the noise ratio is the noise variance of a sum over " +
			"that of a trusted curator who adds Gaussian noise for the same budget, as zero-concentrated privacy " +
			"counts it. It can be below 1: a plan counts its noise exactly."}
	for _, c := range r.Comparison {
		ratio := "no noise"
		if c.NoiseRatio > 0 {
			ratio = fmt.Sprintf("%.2f", c.NoiseRatio)
		}
		g.rows = append(g.rows, []string{c.Name, fmt.Sprint(c.Dimension), whole(float64(c.Users)), seconds(c.DeviceCPU),
			seconds(c.ServersCPU), bytesOf(c.Bytes), ratio, c.Trust, c.Source})
	}
	return g
}

func (r *Result) publishedGrid() grid {
	g := grid{left: 3, head: []string{"System", "published figure", "publication"},
		title: "Publications: what others say of their own systems, on their own machines. Nothing of it was " +
			"measured here."}
	for _, p := range r.Published {
		g.rows = append(g.rows, []string{p.System, p.Figure, p.Source})
	}
	return g
}
