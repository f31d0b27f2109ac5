package decisions

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/strict"
)

// arms are those of a row, and which was played.
func (b *builder) arms(r row, d *Decision) error {
	arms := r.arms
	column, v := b.of(r.columns, RoleArms)
	v = v.listed()
	switch {
	case arms != nil:
	case b.fixed != nil:
		arms = b.fixed
	case !v.there && b.ids != nil:
		for _, id := range b.ids {
			arms = append(arms, b.armNamed(id))
		}
	case !v.there && b.o.Schema == nil:
		return fault{column, "is missing: give the numbers of every arm that could be played, or the names of arms " +
			"and a schema that makes numbers of what is known of a person: --features FILE (docs/features.md)"}
	case !v.there:
		return fault{column, "is missing: say which arms could be played, for example " +
			"--columns \"arms:=none|sms|call\""}
	case v.json == nil && v.cell == "" || v.json != nil && v.json.Kind() == 'n':
		return fault{column, "is missing here: list the arms that could be played"}
	case v.nested():
		if b.o.Schema != nil {
			return fault{column, "has vectors, and a schema is given to make them: leave out --features, or name " +
				"the arms"}
		}
		return b.vectors(r, d, column, v)
	default:
		var err error
		if arms, err = b.armsOf(v); err != nil {
			return fmt.Errorf("%q %w", column, err)
		}
	}
	if b.o.Schema == nil {
		return fault{column, "names arms, and nothing says how they become numbers: give the schema of features " +
			"of the " +
			"deployment: --features FILE"}
	}
	return b.encode(r, d, arms)
}

// vectors reads arms that are vectors, and the index of the one that was played.
func (b *builder) vectors(r row, d *Decision, column string, v value) error {
	if field, problem := v.list(&d.Arms); problem != "" || b.o.Every {
		if problem != "" {
			return fault{column + field, problem}
		}
		return nil
	}
	arm, v := b.of(r.columns, RoleArm)
	if v.missing() {
		return fault{arm, "is missing: give the index of the arm that was played, from 0"}
	}
	x, problem := v.number()
	switch {
	case problem != "" || x != math.Trunc(x):
		return fault{arm, "must be a whole number: the index of the arm that was played, from 0"}
	case x < 0 || x >= float64(len(d.Arms)):
		return fault{arm, fmt.Sprintf("is none of the %d arms: it is the index of the one played, from 0", len(d.Arms))}
	}
	d.Arm = int(x)
	return nil
}

// armNamed has an id and nothing else.
func (b *builder) armNamed(id string) fields {
	where := cmp.Or(b.columns[feature.ID].Name, feature.ID)
	return func(column string) value { return value{there: column == where, cell: id, exact: true} }
}

// armsOf are the arms in a value: names, or objects with an id.
func (b *builder) armsOf(v value) (arms []fields, err error) {
	if v.json == nil && !strings.HasPrefix(v.cell, "[") {
		for id := range strings.SplitSeq(v.cell, "|") {
			arms = append(arms, b.armNamed(strings.TrimSpace(id)))
		}
		return arms, nil
	}
	if v.json == nil {
		v.json = jsontext.Value(v.cell)
	}
	var list []jsontext.Value
	err = strict.Unmarshal(v.json, (*values)(&list), strict.Options{})
	if err == nil && len(list) == 0 {
		return nil, errors.New("is empty: list the arms that could be played")
	}
	if err != nil {
		return nil, errors.New("is no list of arms: write names as none|sms|call, or a list in JSON of names, of " +
			"objects with an id, or of vectors (in Python: json.dumps)")
	}
	for i, one := range list {
		if one.Kind() != '{' {
			id, problem := value{json: one, there: true}.text()
			if problem != "" {
				return nil, fmt.Errorf("has an arm %d that is no name: name it by a text", i)
			}
			arms = append(arms, b.armNamed(id))
			continue
		}
		var members object
		if err := strict.Unmarshal(one, &members, strict.Options{}); err != nil {
			return nil, fmt.Errorf("has an arm %d that is no object of features", i)
		}
		arms = append(arms, members.get)
	}
	return arms, nil
}

// id is that of an arm: what it says, or else its index.
func (b *builder) id(arm fields, index int) (string, error) {
	column, v := b.of(arm, feature.ID)
	id, problem := strconv.Itoa(index), ""
	if v.there {
		id, problem = v.text()
	}
	listed := b.ids == nil || name(id, b.ids) >= 0
	switch {
	case problem != "":
	case id == "" || len(id) > feature.MaxText:
		problem = fmt.Sprintf("must be a text of 1 to %d bytes", feature.MaxText)
	case !listed && !v.there:
		problem = fmt.Sprintf("is missing: name the arm, as one of the %d ids of the schema; --columns id=COLUMN "+
			"says where it is", len(b.ids))
	case !listed:
		problem = fmt.Sprintf("is none of the %d ids of the schema: correct it, or give the schema the id or %q",
			len(b.ids), "other")
	case b.ids != nil:
		id = b.ids[name(id, b.ids)]
	}
	if problem != "" {
		return "", fmt.Errorf("arm %d: %w", index, fault{column, problem})
	}
	return id, nil
}

// played is the index of the arm that a value names. Where no name is a number, a number in JSON is the index, as
// devices answer; if arms are counted, the first is 1, and a name that is another number is refused.
func played(v value, ids []string, counted bool) (int, error) {
	if v.missing() && (v.json != nil || name(v.cell, ids) < 0) {
		return 0, fault{"", "is missing: give the arm that was played"}
	}
	text, problem := v.text()
	if problem != "" {
		return 0, fault{"", problem}
	}
	numbered := slices.ContainsFunc(ids, func(id string) bool {
		_, err := strconv.ParseFloat(id, 64)
		return err == nil
	})
	first := 0
	if counted {
		first = 1
	}
	place, err := strconv.Atoi(text)
	place -= first
	switch at := name(text, ids); {
	case counted && numbered && at != place:
		return 0, fmt.Errorf("is a number that says another arm by its place, from 1, than by its name: list %q with "+
			"each name at its place, as 1|2|3", RoleArms)
	case at >= 0:
		return at, nil
	case numbered, !counted && (v.json == nil || v.json.Kind() != '0'):
		return 0, fmt.Errorf("is none of the names of the %d arms that could be played: correct it, or list all arms, "+
			"with | between names", len(ids))
	case err != nil || place < 0 || place >= len(ids):
		return 0, fmt.Errorf("is none of the %d arms: it is the index of the one played, from %d, or its name",
			len(ids), first)
	}
	return place, nil
}
