package decisions

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"

	"github.com/riffle-dp/riffle/pkg/strict"
)

// dsjsonColumns are the roles in Vowpal Wabbit's dsjson.
var dsjsonColumns = map[string]string{
	RoleCost: "_label_cost", RolePropensity: "_label_probability", RoleArm: "_labelIndex", RoleDecision: "EventId",
	RoleArms: "c._multi",
}

// firstObject has the members of the first line, up to where the line is no longer in sight or no JSON.
func firstObject(text *bufio.Reader) (first object) {
	start, _ := text.Peek(text.Size())
	line, _, _ := bytes.Cut(bytes.TrimLeft(start, " \t\n"), []byte("\n"))
	_ = first.UnmarshalJSON(line) // says what is wrong when the line is read
	return first
}

// isDSJSON reports whether the first line is one of Vowpal Wabbit's dsjson. Its labels come first.
func isDSJSON(first object) bool {
	for _, all := range [][]string{{"_label_cost"}, {outcomes}, {"a", "c", "p"}, {"EventId", "Observations"}} {
		if !slices.ContainsFunc(all, func(name string) bool { return !first.get(name).there }) {
			return true
		}
	}
	return false
}

// Members of dsjson that change what a line is.
const (
	outcomes  = "_outcomes"  // of several slots
	slots     = "_slots"     // of the context: several, too
	skipLearn = "_skipLearn" // true: the line is not for learning
	dropped   = "pdrop"      // with what probability a decision was left out of the log
)

// dsjson reads Vowpal Wabbit's dsjson: an object for each decision, whose member c has the features of the context in
// namespaces, and those of each arm in c._multi. The arm that was played is _labelIndex, from 0.
func dsjson(text io.Reader) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		left := -1.0 // pdrop of the lines so far
		for line, err := range strict.Rows[object](text, strict.Options{}) {
			r := row{line: line.Line}
			if err == nil {
				r, err = dsjsonRow(line.Line, line.Value)
			}
			if err == nil {
				left, err = sameDrop(left, line.Line, line.Value.get(dropped))
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// sameDrop is the probability with which decisions were left out, which must be that of the lines before, unless it is
// below 0: lines have no weights here.
func sameDrop(before float64, line int, v value) (float64, error) {
	p, problem := 0.0, ""
	if !v.missing() {
		p, problem = v.number()
	}
	switch {
	case problem != "":
	case p < 0 || p >= 1:
		problem = "must be from 0 to below 1: it is the probability with which a decision was left out"
	case before >= 0 && p != before:
		problem = "is not that of the lines before: decisions were left out with other probabilities, and lines have " +
			"no weights here: read lines of one pdrop at a time"
	default:
		return p, nil
	}
	return p, at(line, fault{dropped, problem})
}

func dsjsonRow(line int, all object) (row, error) {
	r := row{line: line, columns: all.get, indexed: true}
	switch skip := string(all[skipLearn]); {
	case all.get(outcomes).there:
		return r, at(line, fault{outcomes, severalSlots})
	case skip == "true":
		return r, at(line, fault{skipLearn, "says that nothing is to be learnt from the decision: leave the line out"})
	case skip != "" && skip != "false":
		return r, at(line, fault{skipLearn, "must be true or false"})
	}
	var c object
	if err := strict.Unmarshal(all["c"], &c, strict.Options{}); err != nil {
		return r, at(line, fault{"c", "is missing or no object: a line of dsjson has the context and the arms there; " +
			"leave out lines that have an outcome alone"})
	}
	if c.get(slots).there {
		return r, at(line, fault{"c." + slots, severalSlots})
	}
	var arms values
	if err := strict.Unmarshal(c["_multi"], &arms, strict.Options{}); err != nil || len(arms) == 0 {
		return r, at(line, fault{"c._multi", "is missing or no list: it has an object for every arm that could be " +
			"played"})
	}
	delete(c, "_multi")
	context := newLeaves()
	context.add("", c)
	r.context, r.names = context.get, context.names()
	for i, one := range arms {
		var members object
		if strict.Unmarshal(one, &members, strict.Options{}) != nil {
			return r, at(line, fault{fmt.Sprintf("c._multi[%d]", i), "is no object: it has the features of an arm"})
		}
		features := newLeaves()
		features.add("", members)
		r.arms = append(r.arms, features.get)
	}
	if err := strict.Unmarshal(all["_labelIndex"], &r.played, strict.Options{}); err != nil || r.played < 0 ||
		r.played >= len(arms) {
		return r, at(line, fault{"_labelIndex", fmt.Sprintf("is missing, or none of the %d arms of c._multi: it "+
			"is the "+
			"index of the one played, from 0", len(arms))})
	}
	if action, ok := all["_label_Action"]; ok && string(action) != fmt.Sprint(r.played+1) {
		return r, at(line, fault{"_label_Action", "is not _labelIndex + 1: they must name the same arm"})
	}
	return r, nil
}

const severalSlots = "is of several slots (CCB or slates), and a decision has one here: write a line for each slot, " +
	"with its own arm, cost and probability"

// leaves are features in namespaces, by their own names and by those of their namespaces and their own.
type leaves struct{ own, below map[string]value }

func newLeaves() leaves { return leaves{map[string]value{}, map[string]value{}} }

// add adds the members of an object, and of objects in it, alone or in lists, at a path.
func (l leaves) add(path string, members object) {
	for key, member := range members {
		list := values{member}
		if member.Kind() == '[' {
			list = nil
			_ = strict.Unmarshal(member, &list, strict.Options{}) // was read before
		}
		nested := false
		for _, one := range list {
			var inner object
			if one.Kind() == '{' && strict.Unmarshal(one, &inner, strict.Options{}) == nil {
				nested = true
				l.add(path+key+".", inner)
			}
		}
		if !nested {
			l.set(path, key, value{there: true, json: member})
		}
	}
}

// set adds one feature. A name that several have must be given with its path.
func (l leaves) set(path, key string, v value) {
	again := value{there: true, problem: "occurs in several namespaces, or twice: name the column with its " +
		"namespace, " +
		"FIELD=NAMESPACE.NAME"}
	add := func(in map[string]value, name string) {
		if _, there := in[name]; there {
			in[name] = again
			return
		}
		in[name] = v
	}
	add(l.own, key)
	add(l.below, path+key)
}

func (l leaves) get(column string) value {
	if v := l.own[column]; v.there {
		return v
	}
	return l.below[column]
}

// names are those of the features, without their namespaces.
func (l leaves) names() []string { return slices.Sorted(maps.Keys(l.own)) }
