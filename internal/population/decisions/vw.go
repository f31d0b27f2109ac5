package decisions

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/riffle-dp/riffle/pkg/strict"
)

// vwColumns are the roles in the text of Vowpal Wabbit; adfColumns, where each arm has a line.
var (
	vwColumns = map[string]string{RoleCost: "cost", RolePropensity: "probability", RoleArm: "action",
		RoleDecision: "tag"}
	adfColumns = map[string]string{RoleCost: "cost", RolePropensity: "probability", RoleArm: "action",
		RoleDecision: "tag", RoleArms: "the lines of arms"}
)

// vwLabel is action:cost:probability.
var vwLabel = regexp.MustCompile(`^([0-9]+):([^:\s]+):([^:\s]+)$`)

// otherForms begin lines of decisions that are not read.
var otherForms = []string{"ccb", "slates", "ca"}

// vwStart is how a line of Vowpal Wabbit begins, of whatever label: no header of a table has such a first column.
var vwStart = regexp.MustCompile(`^((shared|` + strings.Join(otherForms, "|") + `)(\s[^|]*)?|-?[0-9.]+[:\s][^|]*)?\|`)

// isVW reports whether a text is in the form of Vowpal Wabbit, and whether a decision has several lines (adf).
func isVW(text *bufio.Reader) (vw, adf bool) {
	start, _ := text.Peek(text.Size())
	first, rest, _ := strings.Cut(strings.TrimLeft(string(start), " \t\n"), "\n")
	if !vwStart.MatchString(first) {
		return false, false
	}
	second, _, _ := strings.Cut(rest, "\n")
	labelled := func(line string) bool { return vwLabel.MatchString(firstWord(strings.TrimSpace(line))) }
	return true, !labelled(first) || strings.TrimSpace(second) != "" && !labelled(second)
}

// firstWord is what is before the first space or bar.
func firstWord(line string) string {
	if end := strings.IndexAny(line, " \t|"); end >= 0 {
		return line[:end]
	}
	return line
}

// vwLine is one line: its label, its tag and its features.
type vwLine struct {
	line     int
	shared   bool
	label    []string // action, cost and probability; nil: none
	tag      string
	features leaves
}

// vwCB reads lines action:cost:probability | features, as vw --cb does. Actions count from 1.
func vwCB(text io.Reader) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		for l, err := range vwLines(text) {
			switch {
			case err != nil:
			case l == nil:
				continue
			case l.shared || l.label == nil:
				err = at(l.line, errors.New("it has no label action:cost:probability, as the first line has"))
			}
			if err != nil {
				yield(row{}, err)
				return
			}
			if !yield(row{line: l.line, columns: l.role, context: l.features.get, counted: true,
				names: l.features.names()}, nil) {
				return
			}
		}
	}
}

// vwADF reads decisions of several lines, as vw --cb_explore_adf does: one that begins with "shared" for the context,
// one for each arm, of which the arm played has a label, and a blank one.
func vwADF(text io.Reader) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		var block []*vwLine
		for l, err := range vwLines(text) {
			if err != nil {
				yield(row{}, err)
				return
			}
			if l != nil {
				block = append(block, l)
				continue
			}
			if len(block) == 0 {
				continue
			}
			r, err := vwBlock(block)
			if block = nil; !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// vwBlock is a decision of several lines.
func vwBlock(block []*vwLine) (row, error) {
	r := row{line: block[0].line, indexed: true, context: newLeaves().get, columns: newLeaves().get}
	if block[0].shared {
		r.context, r.names = block[0].features.get, block[0].features.names()
		block = block[1:]
	}
	if len(block) == 0 {
		return r, at(r.line, errors.New("it has no arm behind it: give a line for every arm that could be played"))
	}
	labelled := false
	for i, l := range block {
		switch {
		case l.shared:
			return r, at(l.line, errors.New(`it is "shared" among the lines of arms: it must be the first, behind a `+
				"blank line"))
		case l.label != nil && labelled:
			return r, at(l.line, errors.New("it is the second line of the decision that has a label: one arm was "+
				"played; put a blank line between decisions"))
		case l.label != nil:
			r.played, r.label, r.columns, labelled = i, l.line, l.role, true
		}
		r.arms = append(r.arms, l.features.get)
	}
	return r, nil
}

// role is what a label says.
func (l *vwLine) role(column string) value {
	if column == vwColumns[RoleDecision] {
		return value{there: l.tag != "", cell: l.tag, exact: true}
	}
	for i, role := range []string{RoleArm, RoleCost, RolePropensity} {
		if column == vwColumns[role] {
			return value{there: true, cell: l.label[i], exact: true}
		}
	}
	return value{}
}

// vwLines reads lines; nil is a blank one, and the end.
func vwLines(text io.Reader) iter.Seq2[*vwLine, error] {
	return func(yield func(*vwLine, error) bool) {
		lines, n := bufio.NewScanner(text), 0
		lines.Buffer(nil, strict.DefaultMaxLine)
		for lines.Scan() {
			n++
			if len(bytes.TrimSpace(lines.Bytes())) == 0 {
				if !yield(nil, nil) {
					return
				}
				continue
			}
			l, err := readVW(n, lines.Text())
			if !yield(l, err) || err != nil {
				return
			}
		}
		err := lines.Err()
		if errors.Is(err, bufio.ErrTooLong) {
			err = at(n+1, fmt.Errorf("it has more than %d bytes: each arm must be on a line of its own",
				strict.DefaultMaxLine))
		}
		yield(nil, err)
	}
}

// readVW reads a line.
func readVW(n int, text string) (*vwLine, error) {
	l := &vwLine{line: n, features: newLeaves()}
	head, features, ok := strings.Cut(text, "|")
	if !ok {
		return nil, at(n, errors.New("it has no bar: a line of Vowpal Wabbit is action:cost:probability | features"))
	}
	words := strings.Fields(head)
	if len(words) > 0 && slices.Contains(otherForms, words[0]) {
		return nil, at(n, errors.New("it is of several slots (ccb, slates) or of a continuous action (ca), and a "+
			"decision is one of some arms here: write it as cb or cb_explore_adf"))
	}
	if len(words) > 0 && words[0] == "shared" {
		l.shared, words = true, words[1:]
	} else if len(words) > 0 && strings.Contains(words[0], ":") {
		if l.label = vwLabel.FindStringSubmatch(words[0]); l.label == nil {
			return nil, at(n, errors.New("its label is not action:cost:probability: give all three of the arm played"))
		}
		l.label, words = l.label[1:], words[1:]
	}
	if len(words) > 0 && (strings.HasPrefix(words[0], "'") || !strings.HasSuffix(head, " ")) &&
		!strings.Contains(words[0], ":") {
		l.tag, words = strings.TrimPrefix(words[0], "'"), words[1:]
	}
	if len(words) > 0 {
		return nil, at(n, errors.New("it has something else than one label action:cost:probability before the "+
			"bar: give "+
			"that of the arm played alone, without weights and without actions that were not played"))
	}
	for part := range strings.SplitSeq(features, "|") {
		path := ""
		words := strings.Fields(part)
		if len(words) > 0 && part[0] != ' ' && part[0] != '\t' {
			if strings.Contains(words[0], ":") {
				return nil, at(n, errors.New("it has a namespace with a weight: multiply the values of its features"))
			}
			path, words = words[0]+".", words[1:]
		}
		for _, word := range words {
			name, v := vwFeature(word)
			l.features.set(path, name, v)
		}
	}
	return l, nil
}

// vwFeature is NAME, NAME:NUMBER or NAME=TEXT. A name alone is true, or 1.
func vwFeature(word string) (name string, v value) {
	if name, text, ok := strings.Cut(word, "="); ok {
		text, weight, weighted := strings.Cut(text, ":")
		if x, err := strconv.ParseFloat(weight, 64); weighted && (err != nil || x != 1) {
			return name, value{there: true, problem: "has both a text and a weight: give one of them"}
		}
		return name, value{there: true, cell: text, exact: true}
	}
	name, number, ok := strings.Cut(word, ":")
	if !ok {
		number = "1"
	}
	return name, value{there: true, cell: number, exact: true}
}
