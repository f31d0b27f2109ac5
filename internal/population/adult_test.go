package population_test

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"os"
	"testing"

	"github.com/riffle-dp/riffle/internal/population"
)

// collect drains a sequence and fails on an error in it.
func collect(t testing.TB, p *population.Population, held bool) []population.Person {
	t.Helper()
	people := p.People()
	if held {
		people = p.Holdout()
	}
	var out []population.Person
	for x, err := range people {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, x)
	}
	return out
}

func adult(t testing.TB, o population.AdultOptions) *population.Population {
	t.Helper()
	p, err := population.Adult(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func near(a, b, tol float64) bool { return math.Abs(a-b) <= tol }

// The shipped file is the two originals, byte for byte: the digest is that of `cat adult.data adult.test`.
func TestAdultIsByteFaithful(t *testing.T) {
	f, err := os.Open("data/adult.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	h, first := sha256.New(), sha256.New()
	if _, err := io.CopyN(io.MultiWriter(h, first), z, 3974305); err != nil {
		t.Fatal(err)
	}
	want := "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"
	if got := hex.EncodeToString(first.Sum(nil)); got != want {
		t.Errorf("adult.data digest %s", got)
	}
	if _, err := io.Copy(h, z); err != nil {
		t.Fatal(err)
	}
	want = "4b73a16de3b96fc1f83196b80c0bdd55bb5d6c3d00ed06e21b326477c84f73a9"
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("digest %s", got)
	}
}

func TestCensusHasItsKnownCounts(t *testing.T) {
	rows, err := population.ReadAdult()
	if err != nil {
		t.Fatal(err)
	}
	over, test, overTest := 0, 0, 0
	for i, r := range rows {
		if r.Test != (i >= 32561) {
			t.Fatalf("row %d: Test = %v", i, r.Test)
		}
		if r.Over50K {
			over++
		}
		if r.Test {
			test++
			if r.Over50K {
				overTest++
			}
		}
	}
	if len(rows) != 48842 || over != 11687 || test != 16281 || overTest != 3846 {
		t.Errorf("rows %d, over 50K %d, of the test file %d, over 50K of those %d; want 48842, 11687, 16281, 3846",
			len(rows), over, test, overTest)
	}
}

// Features of the first rows, by hand from the text of the file:
//
//	39, State-gov, ..., 13, Never-married, Adm-clerical, ..., 2174, 0, 40, <=50K -> (4/15, 1/2, 0, -1, 1, 0, 1)
//	50, Self-emp-not-inc, ..., 13, Married-civ-spouse, Exec-managerial, 0, 0, 13, <=50K -> (1, 1/2, -1, 1, 0, 1, 1)
//	38, Private, ..., 9, Divorced, Handlers-cleaners, 0, 0, 40, <=50K -> (1/5, -1/6, 0, -1, 0, -1, 1)
//	25, ..., 7, Never-married, Machine-op-inspct, 0, 0, 40, <=50K. (of adult.test) -> (-2/3, -1/2, 0, -1, 0, -1, 1)
func TestFeatureMapsByHand(t *testing.T) {
	rows, err := population.ReadAdult()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		row int
		f   []float64
	}{
		{0, []float64{4.0 / 15, 0.5, 0, -1, 1, 0, 1}},
		{1, []float64{1, 0.5, -1, 1, 0, 1, 1}},
		{2, []float64{0.2, -1.0 / 6, 0, -1, 0, -1, 1}},
		{32561, []float64{-2.0 / 3, -0.5, 0, -1, 0, -1, 1}},
	} {
		b7 := population.MapB7.Person(rows[c.row])
		n := norm(c.f)
		for i, f := range c.f {
			if !near(b7.Arms[1][i], f/n, 1e-15) || !near(b7.Arms[0][i], -f/n, 1e-15) {
				t.Errorf("row %d, feature %d: arms %v and %v, want -+%v", c.row, i+1, b7.Arms[0][i], b7.Arms[1][i], f/n)
			}
		}
		short := []float64{c.f[1], c.f[3], c.f[4], c.f[6]}
		n = norm(short)
		block := population.MapBlock.Person(rows[c.row])
		for i, f := range short {
			a, b := block.Arms[0], block.Arms[1]
			if !near(a[i], f/n, 1e-15) || !near(b[4+i], f/n, 1e-15) || a[4+i] != 0 || b[i] != 0 {
				t.Errorf("row %d, block arms %v and %v, want (x, 0) and (0, x) with x[%d] = %v", c.row, a, b, i, f/n)
			}
		}
		if b7.Rewards[0] != 1 || b7.Rewards[1] != 0 { // all four earn at most 50K
			t.Errorf("row %d: rewards %v", c.row, b7.Rewards)
		}
	}
}

// Every group of the two columns with words, and both ends of each range. Ratios to the constant feature are free of
// the norm.
func TestFeaturesOfEveryGroupAndRangeEnd(t *testing.T) {
	base := population.Census{Age: 35, EducationNum: 10, Hours: 40, MaritalStatus: "Divorced", Occupation: "Sales"}
	ratio := func(c population.Census, feature int) float64 {
		x := population.MapB7.Person(c).Arms[1]
		return x[feature-1] / x[6]
	}
	check := func(what string, c population.Census, feature int, want float64) {
		if got := ratio(c, feature); !near(got, want, 1e-12) {
			t.Errorf("%s: feature %d is %v, want %v", what, feature, got, want)
		}
	}
	for status, want := range map[string]float64{
		"Married-civ-spouse": 1, "Married-AF-spouse": 1, "Married-spouse-absent": -1, "Divorced": -1, "Separated": -1,
		"Widowed": -1, "Never-married": -1,
	} {
		c := base
		c.MaritalStatus = status
		check(status, c, 4, want)
	}
	for occupation, want := range map[string]float64{
		"Exec-managerial": 1, "Prof-specialty": 1, "Other-service": -1, "Handlers-cleaners": -1, "Farming-fishing": -1,
		"Priv-house-serv":   -1,
		"Machine-op-inspct": -1, "?": -1, "Sales": 0, "Craft-repair": 0, "Adm-clerical": 0, "Tech-support": 0,
		"Transport-moving": 0,
		"Protective-serv":  0, "Armed-Forces": 0,
	} {
		c := base
		c.Occupation = occupation
		check(occupation, c, 6, want)
	}
	for _, v := range []struct{ age, education, hours, f1, f2, f3 float64 }{
		{17, 1, 1, -1, -1, -1}, {20, 4, 20, -1, -1, -1}, {35, 10, 40, 0, 0, 0}, {50, 16, 60, 1, 1, 1}, {90, 16, 99, 1,
			1, 1}, {41, 13, 50, 0.4, 0.5, 0.5},
	} {
		c := base
		c.Age, c.EducationNum, c.Hours = v.age, v.education, v.hours
		check("age", c, 1, v.f1)
		check("education", c, 2, v.f2)
		check("hours", c, 3, v.f3)
	}
	check("neither gain nor loss", base, 5, 0)
	gain, lost := base, base
	gain.CapitalGain, lost.CapitalLoss = 114, 155
	check("gain", gain, 5, 1)
	check("loss", lost, 5, 1)
}

func norm(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	return math.Sqrt(sum)
}

func TestCensusPeopleHaveUnitArmsAndOneRightAnswer(t *testing.T) {
	for _, m := range []population.FeatureMap{population.MapB7, population.MapBlock} {
		p := adult(t, population.AdultOptions{Seed: 3, Holdout: 0.2, Map: m})
		info := p.Info()
		if info.People != 39074 || info.HeldOut != 9768 || info.Dim != m.Dim() || info.Arms != 2 ||
			info.Family != "logistic" {
			t.Errorf("%s: info %+v", m, info)
		}
		people, held := collect(t, p, false), collect(t, p, true)
		if len(people) != info.People || len(held) != info.HeldOut {
			t.Fatalf("%s: %d people and %d held out, info says %+v", m, len(people), len(held), info)
		}
		over := 0.0
		for _, x := range append(people, held...) {
			over += x.Rewards[1]
			if x.Rewards[0]+x.Rewards[1] != 1 {
				t.Fatalf("rewards %v", x.Rewards)
			}
			for _, a := range x.Arms {
				if len(a) != info.Dim || !near(norm(a), 1, 1e-12) {
					t.Fatalf("%s: arm %v of norm %v", m, a, norm(a))
				}
			}
		}
		if over != 11687 {
			t.Errorf("%s: %v people over 50K in both parts together, want 11687", m, over)
		}
	}
}

func TestBestConstantOfTheCensus(t *testing.T) {
	p := adult(t, population.AdultOptions{})
	arm, value, err := population.BestConstant(p.People())
	if err != nil || arm != 0 || !near(value, 37155.0/48842, 1e-12) || !near(value, 0.7607, 5e-5) {
		t.Errorf("best constant arm %d of value %v (%v), want arm 0 and 0.7607", arm, value, err)
	}
	p = adult(t, population.AdultOptions{TestHoldout: true})
	if i := p.Info(); i.People != 32561 || i.HeldOut != 16281 {
		t.Errorf("split of the original files: %+v", i)
	}
	arm, value, err = population.BestConstant(p.Holdout())
	if err != nil || arm != 0 || !near(value, 0.7638, 5e-5) {
		t.Errorf("test file: best constant arm %d of value %v (%v), want 0.7638", arm, value, err)
	}
}

// same reports whether two people have the same arms and rewards.
func same(a, b population.Person) bool {
	if len(a.Arms) != len(b.Arms) {
		return false
	}
	for i := range a.Arms {
		for j := range a.Arms[i] {
			if a.Arms[i][j] != b.Arms[i][j] {
				return false
			}
		}
		if a.Rewards[i] != b.Rewards[i] {
			return false
		}
	}
	return true
}

func equal(a, b []population.Person) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !same(a[i], b[i]) {
			return false
		}
	}
	return true
}

func TestAdultIsDeterministicInItsSeed(t *testing.T) {
	o := population.AdultOptions{Seed: 7, Holdout: 0.2, Users: 500}
	a, b := adult(t, o), adult(t, o)
	first := collect(t, a, false)
	if !equal(first, collect(t, b, false)) || !equal(first, collect(t, a, false)) {
		t.Error("two passes with one seed differ")
	}
	o.Users = 300
	few := adult(t, o)
	if !equal(first[:300], collect(t, few, false)) || !equal(collect(t, a, true), collect(t, few, true)) {
		t.Error("fewer users must be the first of the same people, with the same people held out")
	}
	o.Seed = 8
	if equal(first[:300], collect(t, adult(t, o), false)) {
		t.Error("two seeds give the same people")
	}
}

func TestAdultRefusesBadOptions(t *testing.T) {
	for _, c := range []struct {
		name string
		o    population.AdultOptions
		want error
	}{
		{"map", population.AdultOptions{Map: "b8"}, population.ErrOption},
		{"holdout 1", population.AdultOptions{Holdout: 1}, population.ErrOption},
		{"holdout NaN", population.AdultOptions{Holdout: math.NaN()}, population.ErrOption},
		{"negative users", population.AdultOptions{Users: -1}, population.ErrOption},
		{"too many users", population.AdultOptions{Users: 40000, Holdout: 0.2}, population.ErrTooFew},
	} {
		if _, err := population.Adult(c.o); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}
