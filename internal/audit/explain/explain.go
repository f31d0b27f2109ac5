// Package explain says in plain words what one release, epoch or plan of a deployment did: who saw what, what was
// released and what it cost, what was refused and why. Every number in it is read from the signed statements, or
// computed from them with the code that devices run; none is the analyzer's word alone where it can be computed.
package explain

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/riffle-dp/riffle/internal/audit"
)

// Subject is what a question is about.
type Subject string

// The subjects.
const (
	Release Subject = "release" // one round of an epoch
	Epoch   Subject = "epoch"   // all rounds of an epoch, and its plan
	Plan    Subject = "plan"    // what was announced before anybody took part
	Breach  Subject = "breach"  // a kind of breach
)

// Question is what is to be explained.
type Question struct {
	Subject Subject    `json:"subject"`
	Epoch   uint64     `json:"epoch,omitempty"`
	Round   *uint32    `json:"round,omitempty"` // of a release; nil: the only one of its epoch
	What    audit.What `json:"what,omitempty"`  // of a breach
}

// String is the question as people ask it.
func (q Question) String() string {
	switch {
	case q.Subject == Breach:
		return string(q.What)
	case q.Subject == Release && q.Round != nil:
		return fmt.Sprintf("%s %d.%d", q.Subject, q.Epoch, *q.Round)
	}
	return fmt.Sprintf("%s %d", q.Subject, q.Epoch)
}

var (
	number  = regexp.MustCompile(`^([0-9]{1,19})(?:\.([0-9]{1,9}))?$`)
	subject = map[string]Subject{"release": Release, "epoch": Epoch, "plan": Plan}
)

// Parse reads a question: "release 3.0", "release 3", "3.0", "3", "epoch 3", "plan 3", or the name of a breach. What is
// left over of the words is returned. The error lists what can be asked.
func Parse(words []string) (q Question, rest []string, err error) {
	if len(words) > 0 {
		words = append(strings.Fields(words[0]), words[1:]...)
	}
	if len(words) == 0 {
		return q, nil, fmt.Errorf("say what to explain: %s", canBeAsked())
	}
	if i := slices.IndexFunc(audit.Explanations(), func(e audit.Explanation) bool {
		return string(e.What) == words[0]
	}); i >= 0 {
		return Question{Subject: Breach, What: audit.What(words[0])}, words[1:], nil
	}
	q.Subject = Release
	if of, ok := subject[words[0]]; ok {
		if q.Subject, words = of, words[1:]; len(words) == 0 {
			return q, nil, fmt.Errorf("say which %s, by the number of the epoch: %s 3", of, of)
		}
	}
	m := number.FindStringSubmatch(words[0])
	if m == nil || m[2] != "" && q.Subject != Release {
		return q, nil, fmt.Errorf("%q is nothing that can be explained; %s", words[0], canBeAsked())
	}
	if q.Epoch, err = strconv.ParseUint(m[1], 10, 64); err != nil {
		return q, nil, err
	}
	if m[2] != "" {
		n, err := strconv.ParseUint(m[2], 10, 32)
		if err != nil {
			return q, nil, err
		}
		round := uint32(n)
		q.Round = &round
	}
	return q, words[1:], nil
}

// canBeAsked lists what Parse takes.
func canBeAsked() string {
	var names []string
	for _, e := range audit.Explanations() {
		names = append(names, string(e.What))
	}
	return `there are "release 3.0" (epoch 3, round 0), "epoch 3", "plan 3", and the names of breaches: ` +
		strings.Join(names, ", ")
}

// Answer is an explanation: the facts, and the same in words.
type Answer struct {
	Question Question  `json:"question"`
	Facts    *Facts    `json:"facts,omitempty"` // of a release, epoch or plan
	Text     []Section `json:"text"`
	// Breaches are what the audit found about it.
	Breaches []audit.Breach `json:"breaches"`
}

// Section is a headline and its sentences.
type Section struct {
	Title string   `json:"title"`
	Lines []string `json:"lines"`
}

func (s *Section) add(format string, v ...any) { s.Lines = append(s.Lines, fmt.Sprintf(format, v...)) }

// Write writes the sentences.
func (a *Answer) Write(w io.Writer) error {
	for i, s := range a.Text {
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintln(w, s.Title); err != nil {
			return err
		}
		for _, line := range s.Lines {
			if _, err := fmt.Fprintf(w, "  - %s\n", line); err != nil {
				return err
			}
		}
	}
	return nil
}

// OfBreach explains a kind of breach, with those of the kind that an audit found; the report may be nil.
func OfBreach(what audit.What, report *audit.Report) *Answer {
	a := &Answer{Question: Question{Subject: Breach, What: what}, Breaches: []audit.Breach{}}
	s := Section{Title: string(what)}
	for _, e := range audit.Explanations() {
		if e.What == what {
			s.add("%s", e.Means)
			s.add("Who can have done it: %s.", e.By)
			s.add("What to do: %s", e.Do)
		}
	}
	a.Text = append(a.Text, s)
	if report == nil {
		return a
	}
	for _, b := range report.Breaches {
		if b.What == what {
			a.Breaches = append(a.Breaches, b)
		}
	}
	a.Text = append(a.Text, tellBreaches(a.Breaches, report, "of this kind"))
	return a
}

// tellBreaches tells what an audit found.
func tellBreaches(breaches []audit.Breach, report *audit.Report, about string) Section {
	s := Section{Title: "What the audit found"}
	for _, b := range breaches {
		s.add("BREACH %s in %s: %s.", b.What, b.Entry, b.Detail)
	}
	switch others := len(report.Breaches) + report.Unlisted - len(breaches); {
	case len(breaches) == 0 && others == 0:
		s.add("No breach, here or elsewhere in the logs.")
	case len(breaches) == 0:
		s.add("No breach %s, but %d elsewhere in the logs.", about, others)
	case others > 0:
		s.add("And %d elsewhere in the logs.", others)
	}
	return s
}
