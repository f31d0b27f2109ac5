package decisions

import (
	"bufio"
	"errors"
	"io"
	"iter"
	"slices"

	"github.com/riffle-dp/riffle/pkg/table"
)

// openBandit are the roles in the tables of the Open Bandit Dataset.
var openBandit = map[string]string{RoleArm: "item_id", RoleReward: "click", RolePropensity: "propensity_score"}

// openCells opens a table of text.
func openCells(text *bufio.Reader, o Options) (iter.Seq2[row, error], *builder, error) {
	c, err := table.NewCells(text)
	if err != nil {
		return nil, nil, err
	}
	of := form{columns: openBandit}
	for _, column := range openBandit {
		if !slices.Contains(c.Columns, column) {
			of = form{}
		}
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
