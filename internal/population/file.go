package population

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/riffle-dp/riffle/internal/population/decisions"
	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
)

// DefaultNormBound is S of [FileOptions]: that of a learner that is not told.
const DefaultNormBound = learner.DefaultRadius

// FileOptions says how to read a file of people.
type FileOptions struct {
	Users     int     // people to decide for; 0 = all who are not held out
	Seed      uint64  // who is held out
	Holdout   float64 // share held out at random, in [0, 1)
	Family    string  // reward family; "" = "logistic"
	MaxReward float64 // R: rewards must be in [0, R], or [-1, 1] in the linear family; 0 = 1
	NormBound float64 // S: bound on the parameter's norm; 0 = DefaultNormBound
	// Structure is declared of arms; a file with an arm that does not fit is refused. nil: any arm.
	Structure structure.Structure
	// Columns and Schema say how the file is read, as in decisions.Options.
	Columns decisions.Columns
	Schema  *feature.Schema
}

// File returns the people of a file with the reward of every arm, which package decisions reads: JSON Lines, or a
// table; as it is, or compressed with gzip. A line of JSON Lines is like
//
//	{"arms": [[0.1, 0.9], [0.3, -0.2]], "rewards": [1, 0]}
//
// File reads the whole file once, so that a malformed line is found before any decision; its error wraps
// decisions.ErrLog and names the line, and quotes nothing of it. After that each pass streams: memory holds one line,
// whatever the size of the file. People come in the order of the file, so put them in the order in which they would
// have come, or shuffle them first. The number of arms may differ from person to person; the dimension may not. An arm
// of norm above 1 is scaled to norm 1 and counted in Info().Clipping.
func File(path string, o FileOptions) (*Population, error) {
	o.Family = cmp.Or(o.Family, family.NameLogistic)
	o.MaxReward = cmp.Or(o.MaxReward, 1)
	o.NormBound = cmp.Or(o.NormBound, DefaultNormBound)
	model, err := family.New(o.Family, o.MaxReward)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOption, err)
	}
	if !(o.NormBound > 0) || math.IsInf(o.NormBound, 1) {
		return nil, fmt.Errorf("%w: norm bound %v; it must be positive and finite", ErrOption, o.NormBound)
	}
	if err := checkShare(o.Holdout); err != nil {
		return nil, err
	}
	f := file{path: path, o: o}
	f.read, err = decisions.Options{Columns: o.Columns, Schema: o.Schema, Family: model, Every: true}.Beside(path)
	if err != nil {
		return nil, err
	}
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

// file is a surveyed file of people.
type file struct {
	path  string
	o     FileOptions
	read  decisions.Options
	info  Info
	total int // people in the file
}

// survey reads the whole file once: it checks every line and counts.
func (f *file) survey() error {
	info := Info{Name: filepath.Base(f.path), Family: f.o.Family, MaxReward: f.o.MaxReward, NormBound: f.o.NormBound,
		Structure: f.o.Structure}
	for l, err := range f.lines() {
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
		for l, err := range f.lines() {
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

// lines yields the checked lines of the file.
func (f *file) lines() iter.Seq2[fileLine, error] {
	return func(yield func(fileLine, error) bool) {
		in, err := os.Open(f.path)
		if err != nil {
			yield(fileLine{}, fmt.Errorf("population: %w", err))
			return
		}
		defer in.Close()
		for d, err := range decisions.Rows(in, f.read) {
			var l fileLine
			if err == nil {
				l, err = f.check(d)
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", f.path, err)
			}
			if !yield(l, err) || err != nil {
				return
			}
		}
	}
}

// check checks a line against what was declared of arms, and scales long ones.
func (f *file) check(d decisions.Decision) (fileLine, error) {
	l := fileLine{person: Person{Arms: d.Arms, Rewards: d.Rewards, Named: d.Named}}
	dim := len(d.Arms[0])
	if f.info.Dim != 0 && dim != f.info.Dim {
		return l, fmt.Errorf("it changed while it was in use: arms of %d numbers were there, now of %d", f.info.Dim,
			dim)
	}
	if err := f.o.Structure.Validate(dim); err != nil {
		return l, fmt.Errorf("%w: line %d: \"arms\" has vectors of dimension %d, which is not what was declared of "+
			"arms: %w", decisions.ErrLog, d.Line, dim, err)
	}
	for i, a := range l.person.Arms {
		if !f.o.Structure.Fits(a) {
			return l, fmt.Errorf("%w: line %d: \"arms[%d]\" does not fit what was declared of arms: it has numbers "+
				"other than 0 of two options", decisions.ErrLog, d.Line, i)
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
