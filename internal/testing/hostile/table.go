// Package hostile plays a malicious shuffler and a malicious broker against the roles' own code, and writes down what
// came of it: the files of docs/attacks are its output. An outcome in them is made of what a test saw,
// never of what was intended: a guard that is gone changes a row, and the row fails the test.
//
// The malicious shuffler has its real keys and credentials, and a real broker, analyzer and audit around it. The
// malicious broker stands between each role and a real broker, at the interface through which the role asks for
// anything: whatever a broker does on the wire reaches a role as what these calls return, so that nothing is lost by
// lying there, and answers that the client of NATS would refuse are tried, too.
package hostile

import (
	"cmp"
	"encoding/csv"
	"slices"
	"strings"
)

// Row is one attack in one channel.
type Row struct {
	Attack  string // what the hostile party did
	Channel string // in which channel; empty: in any
	Outcome string // what came of it, as the test saw it
	Left    string // what protects a person then; empty: what the channel assumes
	Test    string // that ran it
}

// Table is what one hostile party did, in the order of its file.
type Table []Row

// header names the columns of a file. Channels are separated by spaces.
var header = []string{"attack", "channels", "what came of it", "what protects a person then", "test"}

// CSV is the table with one line for each attack and outcome: channels with the same outcome share it.
func (t Table) CSV() string {
	type line struct {
		Row
		channels []string
	}
	var lines []*line
	for _, r := range t {
		same := slices.IndexFunc(lines, func(l *line) bool {
			return l.Attack == r.Attack && l.Outcome == r.Outcome && l.Left == r.Left
		})
		if same < 0 {
			// An attack's lines are next to each other.
			same = len(lines)
			for i, l := range lines {
				if l.Attack == r.Attack {
					same = i + 1
				}
			}
			lines = slices.Insert(lines, same, &line{Row: r})
		}
		lines[same].channels = append(lines[same].channels, r.Channel)
	}
	records := [][]string{header}
	for _, l := range lines {
		records = append(records, l.record(strings.Join(l.channels, " ")))
	}
	return Format(records)
}

// record is the row in a file, with the channels in which it holds.
func (r Row) record(channels string) []string {
	return []string{r.Attack, channels, r.Outcome, cmp.Or(r.Left, "what the channel assumes"), r.Test}
}

// Lists reports whether a file that CSV made has the row, with its channel among those of its line.
func Lists(file string, r Row) bool {
	records, err := csv.NewReader(strings.NewReader(file)).ReadAll()
	return err == nil && slices.ContainsFunc(records, func(c []string) bool {
		return slices.Contains(strings.Fields(c[1]), r.Channel) && slices.Equal(c, r.record(c[1]))
	})
}

// Format writes records as comma-separated values.
func Format(records [][]string) string {
	var w strings.Builder
	_ = csv.NewWriter(&w).WriteAll(records) // a strings.Builder takes everything
	return w.String()
}
