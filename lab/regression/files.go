package regression

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"sync"

	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/strict"
)

// Table is a file of numbers: a column for each feature, and the target's.
type Table struct {
	Columns []string // of the features
	Rows    [][]float64
	Target  []float64
}

// ReadTable reads a table of numbers: CSV with a header line, or JSON Lines, one object of numbers a line, all with the
// same keys (sorted, they are the columns). Which one it is, the first byte tells. A cell that is no finite number is
// an error that names its line.
func ReadTable(r io.Reader, target string) (*Table, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrData, err)
	}
	text = bytes.TrimLeft(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")), " \t\r\n")
	if bytes.HasPrefix(text, []byte("{")) {
		return readLines(text, target)
	}
	lines, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrData, err)
	}
	if len(lines) < 2 {
		return nil, fmt.Errorf("%w: the file needs a header line and at least one line of numbers", ErrData)
	}
	at := slices.Index(lines[0], target)
	if at < 0 {
		return nil, noColumn(target, lines[0])
	}
	t := &Table{Columns: slices.Delete(slices.Clone(lines[0]), at, at+1)}
	for i, line := range lines[1:] {
		row := make([]float64, 0, len(line))
		for j, cell := range line {
			v, err := strconv.ParseFloat(cell, 64)
			if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, fmt.Errorf("%w: line %d: %s is %q, not a finite number", ErrData, i+2, lines[0][j], cell)
			}
			row = append(row, v)
		}
		t.Target = append(t.Target, row[at])
		t.Rows = append(t.Rows, slices.Delete(row, at, at+1))
	}
	return t, t.check()
}

func readLines(text []byte, target string) (*Table, error) {
	t := &Table{}
	for line, err := range strict.Rows[map[string]float64](bytes.NewReader(text), strict.Options{MaxLine: 1 << 24}) {
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrData, err)
		}
		cells := line.Value
		names := slices.Sorted(maps.Keys(cells))
		if t.Columns == nil {
			if !slices.Contains(names, target) {
				return nil, noColumn(target, names)
			}
			t.Columns = slices.DeleteFunc(slices.Clone(names), func(s string) bool { return s == target })
		}
		if _, there := cells[target]; !there || len(names) != len(t.Columns)+1 {
			return nil, fmt.Errorf("%w: line %d has the keys %q, not those of the first line", ErrData, line.Line,
				names)
		}
		row := make([]float64, 0, len(t.Columns))
		for _, name := range t.Columns {
			v, there := cells[name]
			if !there {
				return nil, fmt.Errorf("%w: line %d has no number %q", ErrData, line.Line, name)
			}
			row = append(row, v)
		}
		t.Rows, t.Target = append(t.Rows, row), append(t.Target, cells[target])
	}
	return t, t.check()
}

func noColumn(target string, names []string) error {
	return fmt.Errorf("%w: no column is called %q; there are %q", ErrData, target, names)
}

func (t *Table) check() error {
	if len(t.Columns) == 0 {
		return fmt.Errorf("%w: there is no column besides the target", ErrData)
	}
	if len(t.Rows) == 0 {
		return errors.Join(ErrData, errors.New("there is no row"))
	}
	return nil
}

// file is the data of a file: rows in random order, some of them held out. Rows of norm above 1 are scaled down to norm
// 1; the target's public range becomes [-1, 1], and what lies outside is clipped.
func (s Spec) file(seed uint64, people int) (*Data, error) {
	f, err := os.Open(s.Path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrData, err)
	}
	defer f.Close()
	t, err := ReadTable(f, cmp.Or(s.Target, "reward"))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Path, err)
	}
	low, high := s.Low, s.High
	if low == high {
		low, high = -1, 1
	}
	var all []learn.Record
	for i, row := range t.Rows {
		y := 2*(t.Target[i]-low)/(high-low) - 1
		all = append(all, learn.Record{Arm: unit(row), Reward: math.Max(-1, math.Min(1, y))})
	}
	return s.offline(all, seed, people)
}

// census is read once.
var census = sync.OnceValues(population.ReadAdult)

// adult is the census as a regression: the features of the arm "more than 50K", and whether that is right.
func (s Spec) adult(seed uint64, people int) (*Data, error) {
	m := population.FeatureMap(cmp.Or(s.Map, string(population.MapB7)))
	if m.Dim() == 0 {
		return nil, fmt.Errorf("%w: feature map %q", ErrData, s.Map)
	}
	rows, err := census()
	if err != nil {
		return nil, err
	}
	var all []learn.Record
	for _, row := range rows {
		p := m.Person(row)
		all = append(all, learn.Record{Arm: unit(p.Arms[1]), Reward: 2*p.Rewards[1] - 1})
	}
	return s.offline(all, seed, people)
}

// offlineRadius is the bound of the parameter's norm that estimators are told where no one knows it. The features have
// norm at most 1 and the target lies in [-1, 1]; on the census, 1 is too short.
const offlineRadius = 2

// offline is data without a known truth.
func (s Spec) offline(all []learn.Record, seed uint64, people int) (*Data, error) {
	family, err := family.New(family.NameLinear, 1)
	if err != nil {
		return nil, err
	}
	stream(seed, 0, 'o').Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	held := max(1, int(math.Round(cmp.Or(s.Holdout, population.DefaultHoldout)*float64(len(all)))))
	d := &Data{Name: s.Label(), Dim: len(all[0].Arm), Family: family, Radius: offlineRadius, People: len(all) - held}
	if people > d.People {
		return nil, fmt.Errorf("%w: %d people asked for, and %s has %d besides those held out", ErrData, people, d.Name,
			d.People)
	}
	if people > 0 {
		d.People = people
	}
	if d.People < 1 {
		return nil, fmt.Errorf("%w: %s has no one besides those held out", ErrData, d.Name)
	}
	for _, r := range all[:held] {
		d.contexts = append(d.contexts, Point{X: r.Arm, Mean: r.Reward, Weight: 1})
	}
	d.draw = inOrder(all[held : held+d.People])
	return d, nil
}
