package population_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/riffle-dp/riffle/internal/testing/fixedseed"

	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/internal/population/decisions"
	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
)

func write(t testing.TB, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "people.jsonl")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// numbered returns n lines; person i has reward i/n for their one arm (i/n, 0).
func numbered(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		v := float64(i) / float64(n)
		fmt.Fprintf(&b, "{\"arms\": [[%v, 0]], \"rewards\": [%v]}\n", v, v)
	}
	return b.Bytes()
}

func TestFileYieldsEveryPersonOnce(t *testing.T) {
	plain := numbered(1000)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	z.Write(plain)
	z.Close()
	for name, content := range map[string][]byte{"plain": plain, "gzip": zipped.Bytes(),
		"blank lines, CR LF": bytes.ReplaceAll(plain, []byte("\n"), []byte("\r\n\r\n")),
		"CR":                 bytes.ReplaceAll(plain, []byte("\n"), []byte("\r")),
		"mark of UTF-8":      append([]byte("\xef\xbb\xbf"), plain...)} {
		path := write(t, content)
		o := population.FileOptions{Seed: 5, Holdout: 0.2}
		p, err := population.File(path, o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if i := p.Info(); i.People != 800 || i.HeldOut != 200 || i.Dim != 2 || i.Arms != 1 || i.Family != "logistic" ||
			i.Name != "people.jsonl" {
			t.Errorf("%s: info %+v", name, i)
		}
		people, held := collect(t, p, false), collect(t, p, true)
		if len(people) != 800 || len(held) != 200 {
			t.Fatalf("%s: %d people, %d held out", name, len(people), len(held))
		}
		seen := map[float64]bool{}
		last := -1.0
		for _, x := range people {
			if x.Rewards[0] <= last {
				t.Fatalf("%s: people out of the file's order", name)
			}
			last = x.Rewards[0]
			seen[last] = true
		}
		for _, x := range held {
			seen[x.Rewards[0]] = true
		}
		if len(seen) != 1000 {
			t.Errorf("%s: %d different people in both parts together, want 1000", name, len(seen))
		}
		if !equal(people, collect(t, p, false)) {
			t.Errorf("%s: second pass differs", name)
		}
		o.Users = 100
		few, err := population.File(path, o)
		if err != nil {
			t.Fatal(err)
		}
		if !equal(people[:100], collect(t, few, false)) || !equal(held, collect(t, few, true)) {
			t.Errorf("%s: fewer users must be the first of the same people, with the same people held out", name)
		}
		o.Users, o.Seed = 0, 6
		other, err := population.File(path, o)
		if err != nil {
			t.Fatal(err)
		}
		if equal(held, collect(t, other, true)) {
			t.Errorf("%s: two seeds hold out the same people", name)
		}
	}
}

// Who is held out is uniform: over 400 seeds each of 10 people is held out Bin(400, 0.3) times; 120 +- 5 standard
// deviations of 9.17 has a false-alarm rate below 1e-5 over ten people, and catches a selection that favours an end by
// 0.2 surely.
func TestHoldoutIsUniform(t *testing.T) {
	path := write(t, numbered(10))
	counts := map[float64]int{}
	for seed := range uint64(400) {
		p, err := population.File(path, population.FileOptions{Seed: seed, Holdout: 0.3})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range collect(t, p, true) {
			counts[x.Rewards[0]]++
		}
	}
	for i := range 10 {
		if c := counts[float64(i)/10]; c < 74 || c > 166 {
			t.Errorf("person %d held out %d times of 400, want about 120", i, c)
		}
	}
}

const good = `{"arms": [[0.6, 0.8], [0, -1]], "rewards": [1, 0]}` + "\n"

// What is wrong is said with its line and field and with how a line looks, and nothing of the line is quoted.
func TestFileNamesTheBadLine(t *testing.T) {
	for _, c := range []struct{ name, line, want string }{
		{"CSV", "4711,1,0", "it must be an object"},
		{"CSV with a header", "age,dose", "it is not JSON from byte 1"},
		{"one list", "[" + strings.TrimSpace(good) + ",", "it is cut off"},
		{"cut off", `{"arms": [[4711, 0]`, "it is cut off"},
		{"dimension", `{"arms": [[4711, 0, 0]], "rewards": [1]}`, "its arms have dimension 3"},
		{"dimension within", `{"arms": [[4711, 0], [1]], "rewards": [1, 0]}`,
			"\"arms[1]\" has dimension 1, \"arms[0]\" has 2"},
		{"rewards count", `{"arms": [[4711, 0]], "rewards": [1, 0]}`, "\"rewards\" has 2 numbers for 1 arms"},
		{"NaN", `{"arms": [[4711, NaN]], "rewards": [1]}`, "it is not JSON from byte"},
		{"null", `{"arms": [[4711, null]], "rewards": [1]}`, "\"arms[0][1]\" is null"},
		{"null reward", `{"arms": [[4711, 0]], "rewards": [null]}`, "\"rewards[0]\" is null"},
		{"text", `{"arms": [[1, "4711"]], "rewards": [1]}`, "\"arms[0][1]\" must be a number"},
		{"infinite", `{"arms": [[1, 4711e999]], "rewards": [1]}`, "\"arms[0][1]\""},
		{"no arms", `{"arms": [], "rewards": []}`, "\"arms\" is empty"},
		{"empty arm", `{"arms": [[]], "rewards": [1]}`, "\"arms[0]\" is empty"},
		{"no rewards", `{"arms": [[4711, 0]], "rewards": []}`, "\"rewards\" has 0 numbers for 1 arms"},
		{"missing arms", `{"rewards": [1]}`, "\"arms\" is missing"},
		{"what was played", `{"arms": [[4711, 0]], "arm": 0, "reward": 1, "propensity": 1}`,
			"\"rewards\" is missing: it lists what every arm would have earned. A log with the reward of the arm"},
		{"above R", `{"arms": [[1, 0]], "rewards": [4711]}`, "\"rewards[0]\" is not from 0 to 1"},
		{"below 0", `{"arms": [[1, 0]], "rewards": [-1]}`, "\"rewards[0]\" is not from 0 to 1, as in this family"},
		{"twice", `{"arms": [[4711, 0]], "arms": [[1, 0]], "rewards": [1]}`, "\"arms\" occurs twice"},
		{"other case", `{"Arms": [[1, 0]], "rewards": [1]}`, "is written \"arms\""},
		{"two people", strings.TrimSpace(good) + strings.TrimSpace(good), "it has something behind it"},
		{"Latin-1", "{\"n\xe4me\": 4711}", "the file is not UTF-8"},
		{"too long", `{"arms": [[4711, 0` + strings.Repeat(" ", 1<<20) + `]], "rewards": [1]}`,
			"it has more than 1048576 bytes"},
	} {
		for _, end := range []string{"\n", "\r\n", "\r"} {
			text := "\xef\xbb\xbf" + strings.ReplaceAll(good+"\n"+c.line+"\n"+good, "\n", end)
			_, err := population.File(write(t, []byte(text)), population.FileOptions{})
			if !errors.Is(err, decisions.ErrLog) || !strings.Contains(err.Error(), c.want) ||
				strings.Contains(err.Error(), "4711") ||
				c.name != "Latin-1" && !strings.Contains(err.Error(), "line 3: ") {
				t.Errorf("%s: error %v, want one that names line 3 and says %q", c.name, err, c.want)
			}
		}
	}
}

// People come from tables too, with a column for each arm's reward, and a schema that makes their vectors. Columns
// without a role are ignored.
func TestFileOfATable(t *testing.T) {
	schema, err := feature.Parse([]byte(`{"version": 1,
		"context": [{"name": "age", "kind": "number", "low": 0, "high": 100}],
		"arms": [{"name": "id", "kind": "category", "values": ["a", "b"]}], "terms": [["id"], ["id", "age"]]}`))
	if err != nil {
		t.Fatal(err)
	}
	columns, err := decisions.ParseColumns([]string{"rewards=of a|of b"})
	if err != nil {
		t.Fatal(err)
	}
	o := population.FileOptions{Schema: schema, Columns: columns}
	p, err := population.File(write(t, []byte("age;of a;of b;who\n100;0,5;1;x\n50;0;0,25;\n")), o)
	if err != nil {
		t.Fatal(err)
	}
	people := collect(t, p, false)
	if len(people) != 2 || !slices.Equal(people[0].Rewards, []float64{0.5, 1}) ||
		!slices.Equal(people[1].Rewards, []float64{0, 0.25}) || people[0].Arms[1][3] < 0.7 ||
		people[1].Arms[1][3] != 0 {
		t.Errorf("%+v", people)
	}
	_, err = population.File(write(t, []byte("age;of a\n100;0,5\n")), o)
	if err == nil || !strings.Contains(err.Error(), `no column "of a|of b"`) {
		t.Error(err)
	}
}

// What is declared of arms is checked against every arm of a file, and is in what is known of the people.
func TestFileFitsWhatIsDeclared(t *testing.T) {
	path := write(t, []byte(`{"arms": [[1, 0, 0, 0], [0, 0, 0.5, 0.5]], "rewards": [1, 0]}
{"arms": [[0, 0, 0, 0], [0, 0.5, 0, 0.5]], "rewards": [1, 0]}
`))
	o := population.FileOptions{Structure: structure.Structure{{From: 1, Count: 2, Size: 1}}}
	people, err := population.File(path, o)
	if err != nil || !reflect.DeepEqual(people.Info().Structure, o.Structure) {
		t.Errorf("%v", err)
	}
	for want, s := range map[string]structure.Structure{
		"line 2: \"arms[1]\" does not fit": structure.Options(2, 2), "vectors of dimension 4": structure.Options(2, 3),
	} {
		if _, err := population.File(path, population.FileOptions{Structure: s}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", s, err, want)
		}
	}
}

// A file of another encoding is named as such.
func TestFileOfAnotherKind(t *testing.T) {
	for text, want := range map[string]string{"\xff\xfe{\x00\"\x00": "UTF-16", "PK\x03\x04 ": "spreadsheet"} {
		if _, err := population.File(write(t, []byte(text)), population.FileOptions{}); err == nil ||
			!strings.Contains(err.Error(), "the file is") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// Rewards of the linear family lie in [-1, 1], those of all others begin at 0.
func TestRewardsLieInTheFamilysRange(t *testing.T) {
	for line, good := range map[string]bool{
		`{"arms": [[1, 0]], "rewards": [-1]}`: true, `{"arms": [[1, 0]], "rewards": [-1.5]}`: false,
	} {
		_, err := population.File(write(t, []byte(line)), population.FileOptions{Family: "linear"})
		if (err == nil) != good {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestFileRefusesBadOptions(t *testing.T) {
	var cut bytes.Buffer
	z := gzip.NewWriter(&cut)
	z.Write(numbered(1000))
	z.Close()
	if _, err := population.File(write(t, cut.Bytes()[:cut.Len()/2]), population.FileOptions{}); err == nil ||
		!strings.Contains(err.Error(), "damaged or cut off") {
		t.Errorf("cut gzip: %v", err)
	}
	if _, err := population.File(filepath.Join(t.TempDir(), "none"), population.FileOptions{}); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	for _, c := range []struct {
		name string
		o    population.FileOptions
		want error
	}{
		{"users", population.FileOptions{Users: 11}, population.ErrTooFew},
		{"all held out", population.FileOptions{Holdout: 0.99}, population.ErrTooFew},
		{"largest reward", population.FileOptions{MaxReward: -1}, population.ErrOption},
		{"holdout", population.FileOptions{Holdout: -0.1}, population.ErrOption},
		{"family", population.FileOptions{Family: "cauchy"}, population.ErrOption},
	} {
		if _, err := population.File(write(t, numbered(10)), c.o); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if _, err := population.File(write(t, nil), population.FileOptions{}); !errors.Is(err, decisions.ErrLog) {
		t.Errorf("empty file: %v", err)
	}
}

func TestFileClipsLongArms(t *testing.T) {
	content := `{"arms": [[3, 4], [0.6, 0.8], [1e99, -1e99]], "rewards": [1, 0, 1]}` + "\n" + good +
		`{"arms": [[1, 1]], "rewards": [1]}`
	p, err := population.File(write(t, []byte(content)), population.FileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if c := p.Info().Clipping; c.Arms != 3 || c.People != 2 {
		t.Errorf("clipping %+v, want 3 arms of 2 people", c)
	}
	if p.Info().Arms != 3 {
		t.Errorf("most arms %d, want 3", p.Info().Arms)
	}
	people := collect(t, p, false)
	if a := people[0].Arms[0]; !near(a[0], 0.6, 1e-15) || !near(a[1], 0.8, 1e-15) {
		t.Errorf("arm (3, 4) became %v", a)
	}
	for _, x := range people {
		for _, a := range x.Arms {
			if norm(a) > 1+1e-12 {
				t.Errorf("arm %v of norm %v", a, norm(a))
			}
		}
	}
}

func TestFileThatChangesIsRefused(t *testing.T) {
	path := write(t, numbered(100))
	p, err := population.File(path, population.FileOptions{Seed: 1, Holdout: 0.2})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, numbered(50), 0o600); err != nil {
		t.Fatal(err)
	}
	var last error
	for _, err := range p.People() {
		last = err
	}
	if last == nil || !strings.Contains(last.Error(), "changed") {
		t.Errorf("a file cut while in use: %v", last)
	}
}

// Whatever a valid person is, encoding/json writes it and File reads the same numbers back.
func TestFileReadsWhatJSONWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "people.jsonl")
	rapid.Check(t, func(t *rapid.T) {
		k, d := rapid.IntRange(1, 4).Draw(t, "k"), rapid.IntRange(1, 4).Draw(t, "d")
		p := population.Person{Rewards: rapid.SliceOfN(rapid.Float64Range(0, 1), k, k).Draw(t, "rewards")}
		for range k {
			p.Arms = append(p.Arms, rapid.SliceOfN(rapid.Float64Range(-0.5, 0.5), d, d).Draw(t, "arm"))
		}
		text, err := json.Marshal(map[string]any{"arms": p.Arms, "rewards": p.Rewards})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		read, err := population.File(path, population.FileOptions{})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for got, err := range read.People() {
			if err != nil || !same(got, p) {
				t.Fatalf("%s: read %+v, %v", text, got, err)
			}
		}
	})
}

func BenchmarkFile(b *testing.B) {
	text := bytes.Repeat([]byte(`{"arms": [[0.123456789, -0.23456789, 0.3456789, -0.456789, 0.56789], `+
		`[0, 1, 0, 0, 0]], "rewards": [1, 0]}`+"\n"), 1000)
	path := write(b, text)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := population.File(path, population.FileOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
