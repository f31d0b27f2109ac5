package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The files of WritePage.
const (
	pageName = "benchmarks.md"
	dataName = "bench.json"
	figures  = "figures"
)

// WritePage writes the page of results into a folder, and its pictures and data into the folder figures there. command
// is what the run was started with.
func (r *Result) WritePage(folder, command string) error {
	names, err := r.drawEach(filepath.Join(folder, figures))
	if err != nil {
		return err
	}
	var data bytes.Buffer
	if err := r.WriteJSON(&data); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, figures, dataName), data.Bytes(), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, pageName), []byte(r.page(command, names)), 0o644)
}

// page is the page of results.
func (r *Result) page(command string, pictures []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# What a deployment costs\n\nThis page was written by `%s`; its numbers are in "+
		"[%s/%s](%s/%s). Do not edit it: run the command again.\n\n", command, figures, dataName, figures, dataName)
	fmt.Fprintf(&b, "**The machine**: %s.\n\n", r.Machine)
	syncing := "The broker did not sync the disk before every acknowledgement, as `riffle demo` runs it; `--sync` has " +
		"it do so."
	if r.Sync {
		syncing = "The broker synced the disk before every acknowledgement."
	}
	fmt.Fprintf(&b, "Broker, shuffler and analyzer ran as processes of their own over file-backed JetStream streams, "+
		"beside each other on these cores; all devices, and the people who use them, in one further process. %s\n\n",
		syncing)
	b.WriteString(intro)
	titles := []string{}
	for _, name := range pictures {
		title := strings.TrimSuffix(strings.TrimPrefix(name, "bench-"), ".png")
		titles = append(titles, fmt.Sprintf("![%s](%s/%s)", title, figures, name))
	}
	fmt.Fprintf(&b, "%s\n\n", strings.Join(titles, "\n"))
	for _, g := range r.grids() {
		heading, rest, _ := strings.Cut(g.title, ":")
		fmt.Fprintf(&b, "## %s\n\n", heading)
		g.title = sentence(rest)
		g.markdown(&b)
	}
	b.WriteString("## The rows of --json\n\n")
	keysGrid().markdown(&b)
	fmt.Fprintf(&b, "## How long it took\n\n")
	sum := 0.0
	for _, t := range r.Took {
		sum += t.Seconds
		fmt.Fprintf(&b, "%s %s, ", t.Section, seconds(t.Seconds))
	}
	fmt.Fprintf(&b, "together %.1f minutes.\n", sum/60)
	return b.String()
}

// sentence starts with a capital.
func sentence(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// intro says how to read the page.
const intro = `**What was run and what is computed.** In rows of the load "devices" every bit was sealed by a device, mixed,
opened and counted, and every released sum was compared with the true one. In rows of "junk" the reports are as they
should be to the shuffler, with random bytes in place of sealed bits: nobody can open them, and the shuffler, which
cannot tell, does all of its work. A million sealed reports would take hours of the devices' processor time, so large
cohorts are junk. What a million people cost is computed from the largest cohort that was run, and says so. Times of
roles are processor time, which other work on the machine disturbs little; wall times are disturbed by it in full.

`

// keys says what stands in a row of --json.
var keys = [][2]string{
	{"role", "device, broker, shuffler, analyzer, or end_to_end"},
	{"channel, users, dimension", "the channel, people of the cohort with one report each, and entries of an " +
		"arm's vector"},
	{"source", "who made the reports: devices; kept, made once for several deployments; or junk"},
	{"per_second", "reports a second: of a role for each second of its own processor time, end to end of wall time"},
	{"messages, messages_per_second", "messages of one report (bit messages in shuffle, else 1), and the same " +
		"in messages"},
	{"cpu_seconds_per_user", "processor time of one person, user and system, in seconds"},
	{"bytes_per_user", "bytes that the role sent to the broker and received from it, for one person; of the broker and " +
		"end to end all that it carried"},
	{"sent_bytes_per_user, received_bytes_per_user", "the two parts of it: payloads and headers, as the broker " +
		"counted them"},
	{"resident_bytes", "the most memory that a process of the role had; end to end the sum over broker, shuffler and " +
		"analyzer; 0: not known"},
	{"resident_bytes_per_user", "how much more memory a person takes than in the smallest run of the same kind; 0: there " +
		"is no smaller one"},
	{"ratio_to_bound, bound", "the least time that the work could take over the time it took, and what that least is " +
		"made of; 0 and empty: there is none"},
	{"wall_seconds", "wall time of the run"},
	{"workers", "workers of the role, beside its lead"},
}

// keysGrid is the table of the keys.
func keysGrid() grid {
	g := grid{left: 2, head: []string{"key", "meaning"}, title: "`riffle-lab bench --json` prints one row for each role, " +
		"channel, dimension and size:"}
	for _, k := range keys {
		g.rows = append(g.rows, k[:])
	}
	return g
}
