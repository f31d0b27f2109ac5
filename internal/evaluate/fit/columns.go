package fit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/riffle-dp/riffle/pkg/learn/estimate"
	"github.com/riffle-dp/riffle/pkg/strict"
	"github.com/riffle-dp/riffle/pkg/table"
)

// Rules for missing values (--missing).
const (
	MissingRefuse = "refuse"
	MissingMiddle = "middle"
)

// columns are what the command line says of columns, before any row is read.
type columns struct {
	order      []string // of those that have bounds or categories, as they were given
	bounds     map[string]estimate.Range
	categories map[string][]string
}

// declared reads the bounds, from the file of --bounds-file and then from --bounds, and the categories.
func (o Options) declared() (c columns, err error) {
	c = columns{bounds: map[string]estimate.Range{}, categories: map[string][]string{}}
	if o.BoundsFile != "" {
		if err := c.readBounds(o.BoundsFile); err != nil {
			return c, err
		}
	}
	for _, text := range o.Bounds {
		name, values, _ := strings.Cut(text, "=")
		low, high, _ := strings.Cut(values, ",")
		l, err := strconv.ParseFloat(strings.TrimSpace(low), 64)
		h, err2 := strconv.ParseFloat(strings.TrimSpace(high), 64)
		b := estimate.Range{Low: l, High: h}
		if err != nil || err2 != nil || !b.Fits() {
			return c, fmt.Errorf("--bounds %q: want COLUMN=LOW,HIGH with two increasing numbers that can be told "+
				"apart, of at most %g", text, estimate.LargestBound)
		}
		if c.categories[name] != nil {
			return c, fmt.Errorf("--bounds %q: the column has categories in %s: leave out one of the two", text,
				o.BoundsFile)
		}
		c.bound(name, b)
	}
	for _, text := range o.Categories {
		name, list, _ := strings.Cut(text, "=")
		if err := c.category(name, strings.Split(list, ",")); err != nil {
			return c, fmt.Errorf("--category %q: %w", text, err)
		}
	}
	return c, nil
}

func (c *columns) category(name string, values []string) error {
	for i := range values {
		if values[i] = strings.TrimSpace(values[i]); values[i] == "" || slices.Contains(values[:i], values[i]) {
			return errors.New("want COLUMN=FIRST,SECOND,.. with different values")
		}
	}
	if _, bounded := c.bounds[name]; len(values) < 2 || bounded || c.categories[name] != nil {
		return errors.New("want two values or more for a column that is declared once and has no bounds")
	}
	c.categories[name] = values
	c.order = append(c.order, name)
	return nil
}

func (c *columns) bound(name string, r estimate.Range) {
	if _, again := c.bounds[name]; !again {
		c.order = append(c.order, name)
	}
	c.bounds[name] = r
}

func (c *columns) readBounds(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	const want = `want {"COLUMN": [LOW, HIGH], "COLUMN": ["FIRST", "SECOND", ..], ..}`
	var file map[string]json.RawMessage
	if err := strict.Unmarshal(text, &file, strict.Options{}); err != nil {
		return fmt.Errorf("%s: %w: %s", path, err, want)
	}
	for _, name := range slices.Sorted(maps.Keys(file)) {
		var values []string
		if json.Unmarshal(file[name], &values) == nil && len(values) > 0 {
			if err := c.category(name, values); err != nil {
				return fmt.Errorf("%s: the values of %q: %w", path, name, err)
			}
			continue
		}
		alone, err := json.Marshal(map[string]json.RawMessage{name: file[name]}) // so that errors name the column
		if err != nil {
			return err
		}
		var of map[string][]float64
		if err := strict.Unmarshal(alone, &of, strict.Options{}); err != nil {
			return fmt.Errorf("%s: %w: %s", path, err, want)
		}
		b := of[name]
		if len(b) != 2 || !(estimate.Range{Low: b[0], High: b[1]}).Fits() {
			return fmt.Errorf("%s: the bounds of %q: want [LOW, HIGH] with two increasing numbers that can be told "+
				"apart, of at most %g", path, name, estimate.LargestBound)
		}
		c.bound(name, estimate.Range{Low: b[0], High: b[1]})
	}
	return nil
}

// boundsOf are those of a column, which must be given.
func (c columns) boundsOf(column string) (estimate.Range, error) {
	b, ok := c.bounds[column]
	if !ok {
		return b, fmt.Errorf("column %q has no bounds: say --bounds %s=LOW,HIGH with what is known of it "+
			"without looking at the data, or declare its values: --category %s=FIRST,SECOND. Bounds are published "+
			"with the result, and the noise is measured by them; bounds that are computed from the data (the "+
			"smallest and the largest value) would reveal single people, without any noise", column, column, column)
	}
	return b, nil
}

// A design is what to fit: known from the command line and a header alone.
type design struct {
	features []string // columns
	groups   []string // with --by
	names    []string // of coefficients: a column, or COLUMN=VALUE for each value of a category but the first
	with     estimate.Fit
}

// design lays the coefficients out. header is nil where there is no file.
func (o Options) design(c columns, header []string) (d design, err error) {
	d.features = o.Features
	if d.features == nil {
		from := header
		if header == nil {
			from = c.order
		}
		for _, name := range from {
			if slices.Contains(c.order, name) && name != o.Target && name != o.By {
				d.features = append(d.features, name)
			}
		}
	}
	if o.By != "" {
		d.groups = c.categories[o.By]
		d.with.Groups = len(d.groups)
		if d.groups == nil {
			return d, fmt.Errorf("--by %s: say which groups there are: --category %s=FIRST,SECOND,.. with all that "+
				"are possible, whether a row is in them or not", o.By, o.By)
		}
	} else if len(d.features) == 0 {
		return d, errors.New("no column but the target has bounds: say --bounds COLUMN=LOW,HIGH or --category " +
			"COLUMN=FIRST,SECOND for each feature")
	}
	for i, name := range d.features {
		if name == o.Target || name == o.By || slices.Contains(d.features[:i], name) {
			return d, fmt.Errorf("column %q is named twice: a column is the target, --by or one feature", name)
		}
		if values := c.categories[name]; values != nil {
			for _, v := range values[1:] {
				d.names, d.with.Features = append(d.names, name+"="+v),
					append(d.with.Features, estimate.Range{Low: 0, High: 1})
			}
			continue
		}
		b, err := c.boundsOf(name)
		if err != nil {
			return d, err
		}
		d.names, d.with.Features = append(d.names, name), append(d.with.Features, b)
	}
	if o.Family == Linear {
		d.with.Target, err = c.boundsOf(o.Target)
	}
	return d, err
}

// readTable reads FILE, or standard input where it is -.
func readTable(path string, stdin io.Reader) (*table.Table, error) {
	from := stdin
	if path == "-" {
		path = "standard input"
	} else {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		from = file
	}
	t, err := table.Read(from)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// rows are the features of all rows, missing values by the rule, and the target.
//
// A value that is missing, or not declared, is refused with the flag that is about it.
func (o Options) rows(t *table.Table, c columns, d design) (rows [][]float64, target []float64, err error) {
	gaps, column := o.Missing == MissingMiddle, o.Target
	defer func() {
		switch {
		case errors.Is(err, table.ErrMissing) && column == o.Target:
			err = fmt.Errorf("%w. A target cannot be missing: the fit would have to guess it", err)
		case errors.Is(err, table.ErrMissing):
			err = fmt.Errorf("%w. --missing middle puts the middle of its bounds there", err)
		case errors.Is(err, table.ErrUndeclared):
			err = fmt.Errorf("%w: --category %s=FIRST,SECOND,.. declares its values", err, column)
		}
	}()
	rows = make([][]float64, t.Rows())
	for _, column = range d.features {
		if values := c.categories[column]; values != nil {
			of, err := t.Categories(column, values, gaps)
			if err != nil {
				return nil, nil, err
			}
			for i, at := range of {
				for v := 1; v < len(values); v++ {
					rows[i] = append(rows[i], indicator(at, v))
				}
			}
			continue
		}
		of, err := t.Numbers(column, gaps)
		if err != nil {
			return nil, nil, err
		}
		b := c.bounds[column]
		for i, v := range of {
			if math.IsNaN(v) {
				v = b.Low + (b.High-b.Low)/2
			}
			rows[i] = append(rows[i], v)
		}
	}
	column = o.Target
	if values := c.categories[o.Target]; values != nil {
		of, err := t.Categories(o.Target, values, false)
		for _, at := range of {
			target = append(target, float64(at))
		}
		return rows, target, err
	}
	target, err = t.Numbers(o.Target, false)
	return rows, target, err
}

// indicator is 1 for a row of the value, 0 for one of another, and the middle where it is missing.
func indicator(at, value int) float64 {
	switch at {
	case -1:
		return 0.5
	case value:
		return 1
	default:
		return 0
	}
}

// groups are the rows' groups. Nobody is in none: how many are would not be public.
func (o Options) groups(t *table.Table, c columns) ([]int, error) {
	group, err := t.Categories(o.By, c.categories[o.By], false)
	switch {
	case errors.Is(err, table.ErrMissing):
		return nil, fmt.Errorf("%w. A row without a group cannot be left out: declare a group for those who have "+
			"none, and write it there", err)
	case errors.Is(err, table.ErrUndeclared):
		return nil, fmt.Errorf("%w: --category %s=FIRST,SECOND,.. declares all groups", err, o.By)
	}
	return group, err
}
