package decisions

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/strict"
	"github.com/riffle-dp/riffle/pkg/table"
)

// encode makes vectors of the context and of named arms, as devices do.
func (b *builder) encode(r row, d *Decision, of []fields) error {
	context, err := b.values(r.context, b.context)
	if err != nil {
		return err
	}
	arms, ids := make([]feature.Arm, len(of)), make([]string, len(of))
	if len(of) > feature.MaxArms {
		return fmt.Errorf("it has %d arms, and a decision has at most %d: leave out arms that are never "+
			"played", len(of),
			feature.MaxArms)
	}
	for i, from := range of {
		if arms[i].ID, err = b.id(from, i); err != nil {
			return err
		}
		if arms[i].Features, err = b.values(from, b.armFields); err != nil {
			return fmt.Errorf("arm %d: %w", i, err)
		}
		if slices.Contains(ids[:i], arms[i].ID) {
			return fmt.Errorf("arm %d: its %q is also that of another arm: give each its own", i, feature.ID)
		}
		ids[i] = arms[i].ID
	}
	if d.Arm = r.played; !r.indexed && !b.o.Every {
		column, v := b.of(r.columns, RoleArm)
		if d.Arm, err = played(v, ids, r.counted); err != nil {
			return fmt.Errorf("%q %w", column, err)
		}
	}
	if b.o.Every {
		d.Named = &Named{context, arms}
	}
	d.Arms, err = b.o.Schema.Encode(context, arms)
	return err
}

// values are the schema's fields in the context or in an arm.
func (b *builder) values(from fields, of []feature.Field) (feature.Values, error) {
	out := feature.Values{}
	for _, f := range of {
		if f.Name == feature.ID {
			continue
		}
		column, v := b.of(from, f.Name)
		b.seen[f.Name] = b.seen[f.Name] || v.there
		x, problem := v.field(f)
		if problem != "" {
			return nil, fault{column, problem}
		}
		out[f.Name] = x
	}
	return out, nil
}

// end refuses a log of which no row had a field of the schema: that is a name that is written in another way.
func (b *builder) end() error {
	for i, f := range append(slices.Clone(b.context), b.armFields...) {
		if seen, asked := b.seen[f.Name]; asked && !seen {
			column := b.called(f.Name)[0]
			if i >= len(b.context) {
				return fmt.Errorf("no arm has %q, which is a field of arms in the schema: give it with each arm in "+
					"%q, as in [{\"id\": \"sms\", %q: ...}], or say that it is known of none: --columns %s:=", column,
					RoleArms, column, f.Name)
			}
			return fmt.Errorf("no row has %q, which is a field of the schema: name its column: --columns "+
				"%s=COLUMN, or "+
				"say that it is known of nobody: --columns %s:=", column, f.Name, f.Name)
		}
	}
	return nil
}

// header refuses names of columns that lack one that is needed, and those that are written in another case.
func (b *builder) header(names []string) error {
	need := b.needed()
	sure := len(need)
	for role, c := range b.columns {
		if !c.Constant && !slices.Contains(need, role) {
			need = append(need, role)
		}
	}
	for _, f := range b.context {
		if !slices.Contains(need, f.Name) {
			need = append(need, f.Name)
		}
	}
	slices.Sort(need[sure:])
	var lacking []string
	for _, role := range need {
		for _, column := range b.called(role) {
			if !b.columns[role].Constant && !slices.Contains(names, column) && !slices.Contains(lacking, role) {
				lacking = append(lacking, role)
			}
		}
	}
	if len(lacking) > 0 {
		return b.lacks(lacking, names)
	}
	return b.extra(names)
}

// needed are the roles without which a row is no decision.
func (b *builder) needed() []string {
	if b.o.Every {
		return []string{RoleRewards}
	}
	need := []string{RoleArm, RoleReward, RolePropensity}
	if _, cost := b.columns[RoleCost]; cost {
		need[1] = RoleCost
	}
	return need
}

// lacks is the error about columns that the names of a table do not have, with what to write.
func (b *builder) lacks(lacking, names []string) error {
	var said, write []string
	for i, role := range lacking {
		column := cmp.Or(b.columns[role].Name, role)
		said, write = append(said, strconv.Quote(column)), append(write, role+"=COLUMN")
		if near := table.Nearest(column, names); near != "" {
			said[i] += fmt.Sprintf(" (the nearest name is %q)", near)
		}
	}
	more := ""
	switch last := lacking[len(lacking)-1]; {
	case !slices.Contains(roles, last):
		more = fmt.Sprintf(", and --columns %s:= for a field that is known of nobody", last)
	case slices.Contains(lacking, RoleRewards):
		more = ", or rewards=FIRST|SECOND, a column for each arm. " + onePlayed
	case slices.Contains(lacking, RolePropensity):
		more = "; propensity:=0.5 is one value for all rows"
	}
	if len(names) == 1 {
		more += ". The header names one column: commas, semicolons or tabs separate columns"
	}
	return fmt.Errorf("the table has no column %s: say which it is: --columns %s%s", strict.List(said, "and"),
		strings.Join(write, ","), more)
}

// extra refuses, if the options say so, columns that have no role.
func (b *builder) extra(names []string) error {
	for _, column := range names {
		used, near := false, ""
		for _, role := range b.all() {
			c, named := b.columns[role]
			used = used || !c.Constant && (slices.Contains(b.called(role), column) ||
				strings.HasSuffix(c.Name, "."+column)) // of a namespace
			if !named && strings.EqualFold(role, column) {
				near = role
			}
		}
		switch {
		case used:
		case near != "":
			return fmt.Errorf("%q is written %q: rename it, or name it with --columns", column, near)
		case b.o.Strict:
			return fmt.Errorf("%q is not a field here, and --strict refuses others: leave it out", column)
		}
	}
	return nil
}

// all are the roles and fields that a column can have in this log.
func (b *builder) all() []string {
	names := append(b.needed(), RoleArms)
	if _, named := b.columns[RoleDecision]; named {
		names = append(names, RoleDecision)
	}
	for _, f := range b.context {
		names = append(names, f.Name)
	}
	return names
}
