package uniform

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of power instead of comparing it")

// What the page's table is of.
const (
	pageRuns  = 40
	pageItems = 400_000 // of a run
	pageTotal = 2_000_000
	quickRuns = 3
	quickCost = 6000 // items of a cell's run that is simulated again by default
)

var pageSizes = []int{5, 12, 48, 240}

func pageOptions(n int) PowerOptions {
	return PowerOptions{
		Shapes: []Shape{{Items: n, Report: 3, Chunk: 16}}, Releases: 1, Most: pageItems / n, Runs: pageRuns,
		Items: pageItems, Total: pageTotal, Seed: [32]byte{5},
	}
}

// The page says how many releases find each fault, as simulated. By default the first runs of cells that are quick to
// simulate are repeated, with the same seeds: they must find the fault within that number, so the table cannot be better
// than the tests. Where RIFFLE_LONG is set, all is simulated and compared.
func TestPageTellsThePower(t *testing.T) {
	path := filepath.Join("..", "docs", "shufflecheck.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(text), "Do not edit the table. -->\n")
	_, tail, end := strings.Cut(rest, "<!-- /table -->")
	if !found || !end {
		t.Fatal("the page has no place for the table")
	}
	if long() || *update {
		page := head + "Do not edit the table. -->\n" + powerTable(t) + "<!-- /table -->" + tail
		if *update {
			err = os.WriteFile(path, []byte(page), 0o644)
		} else if page != string(text) {
			err = errors.New("the page has another table than is simulated: run this test with -update")
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	cells := 0
	for line := range strings.Lines(rest[:len(rest)-len(tail)]) {
		columns := strings.Split(line, " | ")
		fault := Fault(strings.Trim(strings.TrimPrefix(columns[0], "| "), "`"))
		if fault.Explained() == "" {
			continue
		}
		if len(columns) != 2+len(pageSizes) {
			t.Fatalf("%q: %d columns", line, len(columns))
		}
		for i, n := range pageSizes {
			releases, err := strconv.Atoi(strings.Trim(columns[2+i], " |\n"))
			if err != nil || releases*n > quickCost {
				continue
			}
			o := pageOptions(n)
			o.Runs, o.Releases, o.Faults = quickRuns, releases, []Fault{fault}
			p, err := Simulate(t.Context(), o)
			if err != nil || p[fault].Power != 1 {
				t.Errorf("%s in releases of %d: %d releases do not find it: %+v, %v", fault, n, releases, p[fault], err)
			}
			cells++
		}
	}
	if want := 30; cells < want {
		t.Errorf("%d cells were looked at, at least %d must be", cells, want)
	}
}

// powerTable simulates the page's table.
func powerTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("\n| fault | what it does |")
	all := make([]map[Fault]Power, len(pageSizes))
	for i, n := range pageSizes {
		fmt.Fprintf(&b, " %d items |", n)
		var err error
		if all[i], err = Simulate(t.Context(), pageOptions(n)); err != nil {
			t.Fatal(err)
		}
	}
	b.WriteString("\n|---|---|" + strings.Repeat("--:|", len(pageSizes)) + "\n")
	for _, f := range Faults() {
		fmt.Fprintf(&b, "| `%s` | %s |", f, f.Explained())
		for i := range pageSizes {
			p := all[i][f]
			fmt.Fprintf(&b, " %s", p.needs())
			if p.Runs < pageRuns {
				fmt.Fprintf(&b, " (%d runs)", p.Runs)
			}
			b.WriteString(" |")
		}
		b.WriteString("\n")
	}
	return b.String() + "\n"
}

// Power tells a fault that is found from one that is not, and a shuffler without a fault is hardly ever found.
func TestPowerIsSimulated(t *testing.T) {
	o := PowerOptions{
		Shapes: []Shape{{Items: 12}, {Items: 7}}, Releases: 4, Most: 40, Runs: 20, Items: 10_000,
		Faults: []Fault{Identity, Modulo, OneCycle},
	}
	all, err := Simulate(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if p := all[Identity]; p.Power != 1 || p.Runs != 20 || p.AtLeast < 0.78 || p.AtLeast > 0.8 || p.Needed < 1 || p.Needed > 4 {
		t.Errorf("identity: %+v", p)
	}
	if p := all[Modulo]; p.Power != 0 || p.Needed != 0 || p.AtLeast != 0 || p.Simulated != 40 {
		t.Errorf("modulo: %+v", p)
	}
	if p := all[OneCycle]; p.Power != 0 || p.Needed <= 4 || p.Needed > 40 {
		t.Errorf("one cycle takes more than 4 releases, and fewer than 40: %+v", p)
	}
	if _, err := Plant("pigeon", nil); err == nil || !strings.Contains(err.Error(), "skipped-3") {
		t.Errorf("an unknown fault: %v", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Simulate(over, o); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}
