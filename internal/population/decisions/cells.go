package decisions

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"

	"github.com/riffle-dp/riffle/pkg/table"
)

// openBandit are the roles in the Open Bandit Dataset.
var openBandit = map[string]string{RoleArm: "item_id", RoleReward: "click", RolePropensity: "propensity_score"}

// formOf is the form of a log with these columns: that of the Open Bandit Dataset if they have its roles. A column that
// has the name of a role besides is refused, unless it is said which of them has the role.
func formOf(columns []string, said Columns) (form, error) {
	for _, column := range openBandit {
		if !slices.Contains(columns, column) {
			return form{}, nil
		}
	}
	for _, role := range slices.Sorted(maps.Keys(openBandit)) {
		if _, named := said[role]; !named && slices.Contains(columns, role) {
			return form{}, fmt.Errorf("the log has columns %q and %q: say which it is: --columns %s=COLUMN",
				openBandit[role], role, role)
		}
	}
	return form{columns: openBandit}, nil
}

// openCells opens a table of text.
func openCells(text *bufio.Reader, o Options) (iter.Seq2[row, error], *builder, error) {
	c, err := table.NewCells(text)
	if err != nil {
		return nil, nil, err
	}
	of, err := formOf(c.Columns, o.Columns)
	if err != nil {
		return nil, nil, err
	}
	b, err := newBuilder(o, of)
	if err != nil {
		return nil, nil, err
	}
	if err := b.header(c.Columns); err != nil {
		return nil, nil, err
	}
	return cells(c), b, nil
}

// cells reads rows of a table of text.
func cells(c *table.Cells) iter.Seq2[row, error] {
	at := map[string]int{}
	for i, name := range c.Columns {
		at[name] = i
	}
	return func(yield func(row, error) bool) {
		for {
			of, err := c.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			get := func(column string) value {
				i, ok := at[column]
				if !ok {
					return value{}
				}
				return value{there: true, cell: of.Text(i), row: of, at: i, of: true}
			}
			if !yield(row{line: of.Line, columns: get, context: get}, err) || err != nil {
				return
			}
		}
	}
}
