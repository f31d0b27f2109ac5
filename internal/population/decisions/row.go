package decisions

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/riffle-dp/riffle/pkg/feature"
)

// row is one decision of a log, before anything in it is understood.
type row struct {
	line    int
	label   int    // line of what has roles, if it is another
	columns fields // what has a role
	context fields // what may be a field of the context
	arms    []fields
	played  int      // index of the arm that was played, if indexed
	indexed bool     // the form of the log has an index
	counted bool     // arms that have no numbers for names are numbered from 1
	names   []string // of all columns, for those that want to know; nil: not known
}

// builder makes decisions of rows.
type builder struct {
	o         Options
	form      form
	columns   Columns // those of the log's form, and over them those that were named
	context   []feature.Field
	armFields []feature.Field
	ids       []string        // that the schema's field id lists, if it lists all that there can be
	seen      map[string]bool // fields of the schema that some row had
	fixed     []fields        // arms that are the same in all rows
	dimension int
}

// fault is what is wrong in a row: "line 3: "reward" is missing: ...".
type fault struct {
	column, problem string
}

func (f fault) Error() string {
	if f.column == "" {
		return f.problem
	}
	return fmt.Sprintf("%q %s", f.column, f.problem)
}

// ErrNoReward says of a row that it has no reward and is left out, as Options.DropWithoutReward asks. More rows follow.
var ErrNoReward = errors.New("no reward")

// newBuilder checks the columns that were named against the schema.
func newBuilder(o Options, of form) (*builder, error) {
	b := &builder{o: o, form: of, columns: Columns{}, seen: map[string]bool{}}
	var names []string
	if o.Schema != nil {
		b.context, b.armFields = o.Schema.ContextFields(), o.Schema.ArmFields()
		for _, f := range append(slices.Clone(b.context), b.armFields...) {
			if slices.Contains(roles, f.Name) {
				return nil, fmt.Errorf("the schema has a field %q, which is also a role of a column: rename the field",
					f.Name)
			}
			names = append(names, f.Name)
			if f.Name == feature.ID && f.Kind == feature.Category && !f.Other {
				b.ids = f.Values
			}
		}
	}
	if err := o.Columns.check(names); err != nil {
		return nil, err
	}
	for role, column := range of.columns {
		b.columns[role] = Column{Name: column}
	}
	for role, c := range o.Columns {
		if _, given := of.columns[role]; of.fixed && (given || role == RoleReward) {
			return nil, fmt.Errorf("the log is of Vowpal Wabbit, whose form says what has the role %q: give no "+
				"column for it", role)
		}
		b.columns[role] = c
	}
	if _, cost := o.Columns[RoleCost]; cost {
		delete(b.columns, RoleReward)
	} else if _, reward := o.Columns[RoleReward]; reward {
		delete(b.columns, RoleCost)
	}
	if c := b.columns[RoleArms]; c.Constant {
		var err error
		if b.fixed, err = b.armsOf(c.value.listed()); err != nil {
			return nil, fmt.Errorf("the value of %q %w", RoleArms, err)
		}
	}
	return b, nil
}

// called are the names of the columns with a role or field: one, but of rewards, which may have one for each arm.
func (b *builder) called(role string) []string {
	name := cmp.Or(b.columns[role].Name, role)
	if role == RoleRewards {
		return strings.Split(name, "|")
	}
	return []string{name}
}

// of is the column with a role or field, and what a row has there.
func (b *builder) of(from fields, role string) (column string, v value) {
	switch c, named := b.columns[role]; {
	case c.Constant:
		return role, c.value
	case named:
		return c.Name, from(c.Name)
	}
	return role, from(role)
}

// decision understands a row.
func (b *builder) decision(r row) (d Decision, err error) {
	d.Line = r.line
	if !b.o.Every {
		d.Reward, err = b.reward(r)
		if err == nil {
			d.Propensity, err = b.propensity(r)
		}
		if err != nil && !errors.Is(err, ErrNoReward) {
			err = at(cmp.Or(r.label, r.line), err)
		}
		if err != nil {
			return d, err
		}
	}
	if _, named := b.columns[RoleDecision]; named {
		column, v := b.of(r.columns, RoleDecision)
		problem := ""
		if !v.missing() {
			d.ID, problem = v.text()
		}
		if problem != "" {
			return d, fault{column, problem}
		}
	}
	if err := b.arms(r, &d); err != nil {
		return d, err
	}
	if b.o.Every {
		if d.Rewards, err = b.rewards(r, len(d.Arms)); err != nil {
			return d, err
		}
	}
	check := d.check
	if b.o.Every {
		check = d.checkArms
	}
	if err := check(); err != nil {
		return d, err
	}
	if b.dimension > 0 && len(d.Arms[0]) != b.dimension {
		return d, fault{"", fmt.Sprintf("its arms have dimension %d, those before %d: all arms of a log must be alike",
			len(d.Arms[0]), b.dimension)}
	}
	b.dimension = len(d.Arms[0])
	return d, nil
}

// propensity is that of a row.
func (b *builder) propensity(r row) (float64, error) {
	column, v := b.of(r.columns, RolePropensity)
	if v.missing() {
		problem := "is missing: give the probability with which the arm was played"
		if !b.form.fixed {
			problem += ", or --columns propensity:=VALUE if it was always the same"
		}
		return 0, fault{column, problem}
	}
	p, problem := v.number()
	if problem == "" && !(p > 0 && p <= 1) {
		problem = "must be above 0 and at most 1: it is the probability of the arm played, not a percentage"
	}
	if problem != "" {
		return 0, fault{column, problem}
	}
	return p, nil
}

// rewards are those of all arms of a row: a list, or a column for each.
func (b *builder) rewards(r row, arms int) (all []float64, err error) {
	column, v := b.of(r.columns, RoleRewards)
	v = v.listed()
	each := b.called(RoleRewards)
	switch {
	case len(each) > 1:
		for _, name := range each {
			v := r.columns(name)
			if v.missing() {
				return nil, fault{name, "is missing: give what every arm would have earned"}
			}
			x, problem := v.reward()
			if problem != "" {
				return nil, fault{name, problem}
			}
			all = append(all, x)
		}
	case v.missing():
		return nil, fault{column, "is missing: it lists what every arm would have earned. " + onePlayed}
	default:
		if field, problem := v.list(&all); problem != "" {
			return nil, fault{column + field, problem}
		}
		each = nil
	}
	if len(all) != arms {
		return nil, fault{column, fmt.Sprintf("has %d numbers for %d arms: give the reward of each arm", len(all),
			arms)}
	}
	for i, x := range all {
		if f := b.o.Family; f != nil && !(x >= f.MinReward() && x <= f.MaxReward()) {
			name := fmt.Sprintf("%s[%d]", column, i)
			if each != nil {
				name = each[i]
			}
			return nil, fault{name, b.outside()}
		}
	}
	return all, nil
}

// onePlayed is what to do with a log that has the reward of the arm that was played, where all are needed.
const onePlayed = "A log with the reward of the arm that was played, and its propensity, is for riffle replay FILE"

// outside says of a reward that it is not in the family's range.
func (b *builder) outside() string {
	return fmt.Sprintf("is not from %g to %g, as in this family: give the --family and --max-reward that hold it",
		b.o.Family.MinReward(), b.o.Family.MaxReward())
}

// reward is that of a row.
func (b *builder) reward(r row) (float64, error) {
	role, sign := RoleReward, 1.0
	if _, cost := b.columns[RoleCost]; cost {
		role, sign = RoleCost, -1
	}
	column, v := b.of(r.columns, role)
	if v.missing() && b.o.DropWithoutReward {
		return 0, ErrNoReward
	}
	if v.missing() && r.columns(RoleRewards).there {
		return 0, fault{column, "is missing: the log has the rewards of every arm, which riffle demo --data reads, " +
			"and not what was played"}
	}
	if v.missing() {
		return 0, fault{column, "is missing: every decision needs what it earned, or --drop-without-reward leaves " +
			"out " +
			"those without"}
	}
	x, problem := v.reward()
	if problem != "" {
		return 0, fault{column, problem}
	}
	x = sign*x + 0 // -0 is 0
	f := b.o.Family
	switch {
	case f == nil || x >= f.MinReward() && x <= f.MaxReward():
		return x, nil
	case sign < 0:
		return 0, fault{column, fmt.Sprintf("is not from %g to %g: the reward is minus the cost, and from %g to %g in "+
			"this family: subtract the largest cost from all and divide them by what they span, or take a --family "+
			"and --max-reward that hold them (linear: costs from -1 to 1)",
			-f.MaxReward(), -f.MinReward()+0, f.MinReward(), f.MaxReward())}
	}
	return 0, fault{column, b.outside()}
}
