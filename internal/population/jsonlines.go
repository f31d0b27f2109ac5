package population

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
	"github.com/riffle-dp/riffle/pkg/strict"
)

// DefaultNormBound is S of [FileOptions]: that of a learner that is not told.
const DefaultNormBound = learner.DefaultRadius

// FileOptions says how to read a file of JSON Lines.
type FileOptions struct {
	Users     int     // people to decide for; 0 = all who are not held out
	Seed      uint64  // who is held out
	Holdout   float64 // share held out at random, in [0, 1)
	Family    string  // reward family; "" = "logistic"
	MaxReward float64 // R: rewards must be in [0, R], or [-1, 1] in the linear family; 0 = 1
	NormBound float64 // S: bound on the parameter's norm; 0 = DefaultNormBound
	// Structure is declared of arms; a file with an arm that does not fit is refused. nil: any arm.
	Structure structure.Structure
	MaxLine   int // longest line in bytes; 0 = strict.DefaultMaxLine
}

// File returns the people of a file of JSON Lines, optionally compressed with gzip (recognised by content, not by
// name):
//
//	{"arms": [[0.1, 0.9], [0.3, -0.2]], "rewards": [1, 0]}
//
// Lines are read as [strict.Rows] reads them, with exactly these two fields.
//
// File reads the whole file once, so that a malformed line is found before any decision; its error wraps a
// *strict.Error with the line, and quotes nothing of it. After that each pass streams: memory holds one line, whatever
// the size of the file. People come in the order of the file, so put them in the order in which they would have come,
// or shuffle them first. The number of arms may differ from person to person; the dimension may not. An arm of norm
// above 1 is scaled to norm 1 and counted in Info().Clipping.
func File(path string, o FileOptions) (*Population, error) {
	o.Family = cmp.Or(o.Family, family.NameLogistic)
	o.MaxReward = cmp.Or(o.MaxReward, 1)
	o.NormBound = cmp.Or(o.NormBound, DefaultNormBound)
	if _, err := family.New(o.Family, o.MaxReward); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOption, err)
	}
	if !(o.NormBound > 0) || math.IsInf(o.NormBound, 1) {
		return nil, fmt.Errorf("%w: norm bound %v; it must be positive and finite", ErrOption, o.NormBound)
	}
	if o.MaxLine < 0 {
		return nil, fmt.Errorf("%w: longest line %d; it must be positive", ErrOption, o.MaxLine)
	}
	if err := checkShare(o.Holdout); err != nil {
		return nil, err
	}
	f := file{path: path, o: o}
	if err := f.survey(); err != nil {
		return nil, err
	}
	n, err := users(o.Users, f.info.People, path)
	if err != nil {
		return nil, err
	}
	f.info.People = n
	return New(f.info, f.part(false, n), f.part(true, f.info.HeldOut)), nil
}

// file is a surveyed file of JSON Lines.
type file struct {
	path  string
	o     FileOptions
	info  Info
	total int // people in the file
}

// survey reads the whole file once: it checks every line and counts.
func (f *file) survey() error {
	info := Info{Name: filepath.Base(f.path), Family: f.o.Family, MaxReward: f.o.MaxReward, NormBound: f.o.NormBound,
		Structure: f.o.Structure}
	for l, err := range f.lines(0) {
		if err != nil {
			return err
		}
		f.total++
		info.Dim = len(l.person.Arms[0])
		info.Arms = max(info.Arms, len(l.person.Arms))
		if l.clipped > 0 {
			info.Clipping.Arms += l.clipped
			info.Clipping.People++
		}
	}
	info.HeldOut = int(math.Round(f.o.Holdout * float64(f.total)))
	info.People = f.total - info.HeldOut
	f.info = info
	return nil
}

// part yields the first limit people who are held out, or who are not.
func (f *file) part(held bool, limit int) iter.Seq2[Person, error] {
	return func(yield func(Person, error) bool) {
		if limit == 0 {
			return
		}
		given, read := 0, 0
		out := selection{left: f.info.HeldOut, of: f.total, r: stream(f.o.Seed, streamOrder, 0)}
		for l, err := range f.lines(f.info.Dim) {
			if err != nil {
				yield(Person{}, err)
				return
			}
			if read++; read > f.total {
				break
			}
			if out.next() != held {
				continue
			}
			if !yield(l.person, nil) {
				return
			}
			if given++; given == limit {
				return
			}
		}
		yield(Person{}, fmt.Errorf("population: %s changed while it was in use: %d people were there, now %d", f.path,
			f.total, read))
	}
}

// selection draws a random subset of exact size without holding it: the next of `of` items is in with probability
// left/of, which makes every subset of that size equally likely (Knuth, The Art of Computer Programming, volume 2,
// 3.4.2, algorithm S).
type selection struct {
	left, of int
	r        *rand.Rand
}

func (s *selection) next() bool {
	in := s.r.IntN(s.of) < s.left
	s.of--
	if in {
		s.left--
	}
	return in
}

// fileLine is a checked line: the person, and how many of the person's arms were clipped.
type fileLine struct {
	person  Person
	clipped int
}

// lines yields the checked lines of the file. With dim 0 the first line sets the dimension.
func (f *file) lines(dim int) iter.Seq2[fileLine, error] {
	return func(yield func(fileLine, error) bool) {
		in, err := os.Open(f.path)
		if err != nil {
			yield(fileLine{}, fmt.Errorf("population: %w", err))
			return
		}
		defer in.Close()
		text, err := unpacked(in)
		if err != nil {
			yield(fileLine{}, fmt.Errorf("%s: the file cannot be read: %w", f.path, err))
			return
		}
		for row, err := range strict.Rows[line](text, strict.Options{MaxLine: f.o.MaxLine}) {
			var l fileLine
			if err == nil {
				l, err = f.check(row, &dim)
			}
			if wrong, ok := errors.AsType[*strict.Error](err); ok {
				err = badLine(f.path, wrong)
			} else if err != nil {
				err = fmt.Errorf("%s: the file cannot be read further: %w", f.path, err)
			}
			if !yield(l, err) || err != nil {
				return
			}
		}
	}
}

// check checks a line against the file's dimension and the family's range. This line sets a *dim of 0.
func (f *file) check(row strict.Row[line], dim *int) (fileLine, error) {
	if field, problem := row.Value.check(f.o.Family, f.o.MaxReward); problem != "" {
		return fileLine{}, &strict.Error{Line: row.Line, Field: field, Problem: problem}
	}
	l := fileLine{person: Person{Arms: row.Value.Arms, Rewards: row.Value.Rewards}}
	if d := len(l.person.Arms[0]); *dim == 0 {
		*dim = d
	} else if d != *dim {
		return fileLine{}, &strict.Error{Line: row.Line, Field: "arms",
			Problem: fmt.Sprintf("has vectors of dimension %d, but the first person's have %d: all must be alike", d,
				*dim)}
	}
	if err := f.o.Structure.Validate(*dim); err != nil {
		return fileLine{}, &strict.Error{Line: row.Line, Field: "arms",
			Problem: fmt.Sprintf("has vectors of dimension %d, which is not what was declared of arms: %v", *dim, err)}
	}
	for i, a := range l.person.Arms {
		if !f.o.Structure.Fits(a) {
			return fileLine{}, &strict.Error{Line: row.Line, Field: fmt.Sprintf("arms[%d]", i),
				Problem: "does not fit what was declared of arms: it has numbers other than 0 of two options"}
		}
		if clipNorm(a) {
			l.clipped++
		}
	}
	return l, nil
}

// normSlack is the excess over norm 1 that counts as rounding of decimals in a file, not as a norm above 1.
const normSlack = 1e-9

// clipNorm scales x to norm 1 if its norm is above 1, and says whether it was above by more than rounding.
func clipNorm(x []float64) bool {
	top := 1.0 // scaled by the largest entry first: squares of finite numbers may overflow
	for _, v := range x {
		top = math.Max(top, math.Abs(v))
	}
	sum := 0.0
	for _, v := range x {
		sum += (v / top) * (v / top)
	}
	root := math.Sqrt(sum)
	if root*top <= 1 {
		return false
	}
	over := root*top > 1+normSlack
	for i, v := range x {
		x[i] = v / top / root
	}
	return over
}

// unpacked is what a file holds, without gzip.
func unpacked(in io.Reader) (io.Reader, error) {
	buffered := bufio.NewReaderSize(in, 64<<10)
	if magic, _ := buffered.Peek(2); !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return buffered, nil
	}
	return gzip.NewReader(buffered)
}
