package decisions

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/riffle-dp/riffle/pkg/strict"
)

// dsjsonColumns are the roles in Vowpal Wabbit's dsjson.
var dsjsonColumns = map[string]string{
	RoleCost: "_label_cost", RolePropensity: "_label_probability", RoleArm: "_labelIndex", RoleDecision: "EventId",
}

// isDSJSON reports whether the first line is one of Vowpal Wabbit's dsjson.
func isDSJSON(text *bufio.Reader) bool {
	start, _ := text.Peek(text.Size())
	line, _, _ := bytes.Cut(bytes.TrimLeft(start, " \t\n"), []byte("\n"))
	var first object
	if strict.Unmarshal(line, &first, strict.Options{}) != nil {
		return false
	}
	return first.get("_label_cost").there || first.get("c").there && first.get("p").there && first.get("a").there
}

// dsjson reads Vowpal Wabbit's dsjson: an object for each decision, whose member c has the features of the context in
// namespaces, and those of each arm in c._multi. The arm that was played is _labelIndex, from 0.
func dsjson(text io.Reader) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		for line, err := range strict.Rows[object](text, strict.Options{}) {
			r := row{line: line.Line}
			if err == nil {
				r, err = dsjsonRow(line.Line, line.Value)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

func dsjsonRow(line int, all object) (row, error) {
	r := row{line: line, columns: all.get, indexed: true}
	if skip := string(all["_skipLearn"]); skip == "true" {
		return r, at(line, fault{"_skipLearn", "says that nothing is to be learnt from the decision: leave the " +
			"line out"})
	}
	var c object
	if err := strict.Unmarshal(all["c"], &c, strict.Options{}); err != nil {
		return r, at(line, fault{"c", "is missing or no object: a line of dsjson has the context and the arms there; " +
			"leave out lines that have an outcome alone"})
	}
	var arms values
	if err := strict.Unmarshal(c["_multi"], &arms, strict.Options{}); err != nil || len(arms) == 0 {
		return r, at(line, fault{"c._multi", "is missing or no list: it has an object for every arm that could be " +
			"played"})
	}
	delete(c, "_multi")
	context := leaves{}
	context.add("", c)
	r.context, r.names = context.get, slices.Sorted(maps.Keys(context))
	for i, one := range arms {
		var members object
		if strict.Unmarshal(one, &members, strict.Options{}) != nil {
			return r, at(line, fault{fmt.Sprintf("c._multi[%d]", i), "is no object: it has the features of an arm"})
		}
		features := leaves{}
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

// leaves are features in namespaces, by their own names and by those of their namespaces and their own.
type leaves map[string]value

// add adds the members of an object, and of objects in it, at a path.
func (l leaves) add(path string, members object) {
	for key, member := range members {
		var inner object
		if member.Kind() == '{' && strict.Unmarshal(member, &inner, strict.Options{}) == nil {
			l.add(path+key+".", inner)
			continue
		}
		l.set(path, key, value{there: true, json: jsontext.Value(member)})
	}
}

// set adds one feature. A name that several have must be given with its path.
func (l leaves) set(path, key string, v value) {
	again := value{there: true, problem: "occurs in several namespaces, or twice: name the column with its " +
		"namespace, " +
		"FIELD=NAMESPACE.NAME"}
	if _, there := l[key]; there {
		l[key] = again
	} else {
		l[key] = v
	}
	if path != "" {
		if _, there := l[path+key]; there {
			v = again
		}
		l[path+key] = v
	}
}

func (l leaves) get(column string) value { return l[column] }
