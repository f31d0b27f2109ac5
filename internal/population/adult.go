package population

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
	"iter"
	"math"
	"strconv"
	"strings"

	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
)

// adultArchive is the census as shipped; data/README.md says what it is and whom to cite.
//
//go:embed data/adult.gz
var adultArchive []byte

// AdultNormBound is the bound S on the parameter's norm that [Adult] declares: that of a learner that is not told. Over
// 6 seeds the last policies of 3, 5 and 10 are right for 84.46, 84.49 and 84.53 % (map b7, epsilon 1).
const AdultNormBound = learner.DefaultRadius

// adultTestMark opens the second of the two original files: rows after it come from adult.test.
const adultTestMark = "|"

// AdultOptions chooses the census population.
type AdultOptions struct {
	Users   int        // people to decide for; 0 = all who are not held out
	Seed    uint64     // order of the people, and who is held out
	Holdout float64    // share held out at random, in [0, 1); ignored with TestHoldout
	Map     FeatureMap // feature map; "" = MapB7
	// TestHoldout holds out exactly the 16281 people of the original test file, and decides for those of the training
	// file: the split of published results.
	TestHoldout bool
	Family      string // that a learner takes the rewards to be of, logistic or linear; "" = logistic
}

// Census is one row of the Adult census: the columns that the feature maps read.
type Census struct {
	Age, EducationNum, Hours  float64 // years; 1..16; hours per week
	CapitalGain, CapitalLoss  float64 // dollars
	MaritalStatus, Occupation string  // as in the file; "?" = unknown
	Over50K                   bool    // the label: earns more than 50000 dollars a year
	Test                      bool    // row of the original adult.test
}

// Adult returns the Adult census as a two-arm decision: arm 0 says "at most 50K", arm 1 says "more than 50K", and the
// reward is 1 if that is right, else 0. People come in an order drawn from the seed.
func Adult(o AdultOptions) (*Population, error) {
	if o.Map == "" {
		o.Map = MapB7
	}
	o.Family = cmp.Or(o.Family, family.NameLogistic)
	if err := ofFamily(o.Family, "the Adult census"); err != nil {
		return nil, err
	}
	if err := o.Map.check(); err != nil {
		return nil, err
	}
	if err := checkShare(o.Holdout); err != nil {
		return nil, err
	}
	rows, err := ReadAdult()
	if err != nil {
		return nil, err
	}
	order := stream(o.Seed, streamOrder, 0).Perm(len(rows))
	var held, people []int
	for i, row := range order {
		holdOut := float64(i) < math.Round(o.Holdout*float64(len(rows)))
		if o.TestHoldout {
			holdOut = rows[row].Test
		}
		if holdOut {
			held = append(held, row)
		} else {
			people = append(people, row)
		}
	}
	n, err := users(o.Users, len(people), "the Adult census")
	if err != nil {
		return nil, err
	}
	return New(Info{
		Name: "adult", People: n, HeldOut: len(held), Dim: o.Map.Dim(), Arms: 2, Family: o.Family, MaxReward: 1,
		NormBound: AdultNormBound,
	}, o.Map.people(rows, people[:n]), o.Map.people(rows, held)), nil
}

// people yields the chosen rows as people.
func (m FeatureMap) people(rows []Census, chosen []int) iter.Seq2[Person, error] {
	return func(yield func(Person, error) bool) {
		for _, i := range chosen {
			if !yield(m.Person(rows[i]), nil) {
				return
			}
		}
	}
}

// ReadAdult returns the 48842 rows of the census in the order of the original files: first adult.data, then adult.test.
func ReadAdult() ([]Census, error) {
	z, err := gzip.NewReader(bytes.NewReader(adultArchive))
	if err != nil {
		return nil, fmt.Errorf("population: the shipped census is damaged: %w", err)
	}
	return readCensus(z)
}

func readCensus(r io.Reader) ([]Census, error) {
	rows := make([]Census, 0, 48842)
	test := false
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		switch {
		case line == "":
			continue
		case strings.HasPrefix(line, adultTestMark):
			test = true
			continue
		}
		row, err := parseCensus(line)
		if err != nil {
			return nil, fmt.Errorf("population: line %d of the shipped census: %w", n, err)
		}
		row.Test = test
		rows = append(rows, row)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("population: the shipped census is damaged: %w", err)
	}
	return rows, nil
}

func parseCensus(line string) (Census, error) {
	f := strings.Split(line, ", ")
	if len(f) != 15 {
		return Census{}, fmt.Errorf("%d columns, want 15", len(f))
	}
	c := Census{MaritalStatus: f[5], Occupation: f[6]}
	for _, col := range []struct {
		to *float64
		at int
	}{{&c.Age, 0}, {&c.EducationNum, 4}, {&c.CapitalGain, 10}, {&c.CapitalLoss, 11}, {&c.Hours, 12}} {
		v, err := strconv.Atoi(f[col.at])
		if err != nil {
			return Census{}, fmt.Errorf("column %d: %w", col.at+1, err)
		}
		*col.to = float64(v)
	}
	switch strings.TrimSuffix(f[14], ".") {
	case ">50K":
		c.Over50K = true
	case "<=50K":
	default:
		return Census{}, fmt.Errorf("label %q, want >50K or <=50K", f[14])
	}
	return c, nil
}
