package scoring_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/deployment/policyfile"
	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// world is a schema and a policy for it, and asks for decisions.
type world struct {
	r      *rand.Rand
	schema *feature.Schema // nil: arms are vectors
	policy glm.Policy
	file   *policyfile.File
}

// hostile are texts that would end a literal, begin a comment or call something, were they not escaped.
var hostile = []string{`"`, `'`, `"""`, `'''`, `\`, `\"`, `'; DROP TABLE offers; --`, `" OR 1=1 --`, "line\nbreak",
	"carriage\rreturn", "tab\t", "\u2028", "\u202egnirts", "日本語", "é", "%s%d", "{0}", `\N{BULLET}`, `\x41`,
	`"+open("hacked","w").write("x")+"`, `'||(SELECT 1)||'`, "/* */", "*/", "<a href='x'>", "]]>", "&amp;", "🙂", "a b",
	`__import__("os").abort()`, "$$", "`", "?", ":name", "@x"}

// newWorld makes a world of a seed. plain leaves out what only Python can do: hashes and policies of other profiles.
func newWorld(t testing.TB, seed uint64, plain bool) *world {
	t.Helper()
	w := &world{r: rand.New(rand.NewPCG(seed, 7))}
	d := 1 + w.r.IntN(6)
	if plain || seed%5 != 4 {
		s, err := feature.Parse(w.form(plain))
		if err != nil {
			t.Fatal(err)
		}
		w.schema, d = s, s.Dimension()
	}
	w.policy = w.random(t, d, plain)
	a := &plan.Announcement{Deployment: "test", Epoch: 2, Policy: w.policy}
	if w.schema != nil {
		a.Schema, w.policy.Structure = w.schema.Canonical(), w.schema.Structure()
		a.Policy.Structure = w.policy.Structure
	}
	f, err := policyfile.New(a, [32]byte{}, deployment.Estimate{Cohorts: 1}, policyfile.Certificate{
		Channel: plan.Shuffle, RestsOn: plan.Shuffle.RestsOn(), Delta: 1e-6})
	if err != nil {
		t.Fatal(err)
	}
	w.file = f
	return w
}

// form is a random schema.
func (w *world) form(plain bool) []byte {
	number := func() float64 { return math.Round(w.r.NormFloat64()*1000) / 64 }
	kinds := []feature.Kind{feature.Number, feature.Flag, feature.Category, feature.Buckets, feature.Hashed}
	if plain {
		kinds = kinds[:4]
	}
	names := []string{"select", "order", "class", "def", "x", "_"}
	field := func(name string) feature.Field {
		f := feature.Field{Name: name, Kind: kinds[w.r.IntN(len(kinds))]}
		if name == feature.ID {
			f.Kind = feature.Category
		}
		switch f.Kind {
		case feature.Number:
			low := number()
			high := low + 0.1 + math.Abs(number())
			f.Low, f.High = &low, &high
		case feature.Category:
			for _, i := range w.r.Perm(len(hostile))[:2+w.r.IntN(3)] {
				f.Values = append(f.Values, hostile[i])
			}
			f.Other, f.Baseline = w.r.IntN(2) == 0 || name == feature.ID, w.r.IntN(2) == 0
		case feature.Buckets:
			for v, i := number(), 0; i < 1+w.r.IntN(3); i++ {
				f.Thresholds = append(f.Thresholds, v)
				v += 0.5 + math.Abs(number())
			}
			f.Baseline = w.r.IntN(2) == 0
		case feature.Hashed:
			f.Buckets = 1 + w.r.IntN(5)
		}
		return f
	}
	var out struct {
		Version int             `json:"version"`
		Context []feature.Field `json:"context"`
		Arms    []feature.Field `json:"arms"`
		Terms   [][]string      `json:"terms"`
	}
	out.Version = feature.Version
	for i := range 1 + w.r.IntN(2) {
		out.Context = append(out.Context, field(names[i]))
	}
	out.Arms = []feature.Field{field(feature.ID)}
	if w.r.IntN(2) == 0 {
		out.Arms = append(out.Arms, field("class"))
	}
	if w.r.IntN(2) == 0 {
		out.Terms = append(out.Terms, []string{feature.Bias})
	}
	for _, f := range out.Arms {
		out.Terms = append(out.Terms, []string{f.Name})
	}
	for _, f := range out.Context {
		out.Terms = append(out.Terms, []string{f.Name, feature.ID})
	}
	text, err := json.Marshal(out)
	if err != nil {
		panic(err)
	}
	return text
}

// random is a random policy of dimension d.
func (w *world) random(t testing.TB, d int, plain bool) glm.Policy {
	t.Helper()
	const radius = 3
	theta := func() []float64 {
		x := make([]float64, d)
		for i := range x {
			x[i] = w.r.NormFloat64()
		}
		unit, _ := convex.ToUnitBall(x)
		for i := range unit {
			unit[i] *= radius * 0.99
		}
		return unit
	}
	covariance := func(size float64) symmetric.Packed { // B B' of a random matrix
		b := make([][]float64, d)
		for i := range b {
			b[i] = theta()
		}
		var s symmetric.Packed
		for i := range d {
			for j := i; j < d; j++ {
				s = append(s, size*convex.Dot(b[i], b[j]))
			}
		}
		return s
	}
	p := glm.Policy{Profile: glm.Practical, Epoch: 1, Family: family.NameLogistic, MaxReward: 1, Dimension: d,
		Radius: radius, Theta: theta(), Play: glm.PlayGreedy}
	f, err := family.New(p.Family, 1)
	if err != nil {
		t.Fatal(err)
	}
	p.Scaling = glm.NewScaling(f, radius, glm.Stage{Theta: p.Theta, Covariance: covariance(0.01)})
	if w.r.IntN(2) == 0 {
		p.Caution = w.r.Float64() * 2
	}
	if w.r.IntN(2) == 0 {
		p.Control = w.r.Float64() / 2
	}
	plays := []glm.Play{glm.PlayGreedy, glm.PlaySampled, glm.PlayInverseGap, glm.PlayOptimistic, glm.PlayUniform,
		glm.PlayDefault, glm.PlaySampled}
	if plain {
		plays = []glm.Play{glm.PlayGreedy, glm.PlaySampled}
	}
	switch p.Play = plays[w.r.IntN(len(plays))]; p.Play {
	case glm.PlaySampled:
		for range 1 + w.r.IntN(16) {
			p.Draws = append(p.Draws, theta())
		}
		p.Explore = float64(w.r.IntN(2)) * w.r.Float64()
	case glm.PlayInverseGap:
		p.Gamma = w.r.Float64() * 20
	case glm.PlayOptimistic:
		p.Optimism = &glm.Stage{Theta: theta(), Covariance: covariance(0.1), Width: 1}
		if w.r.IntN(2) == 0 {
			p.Criterion = &glm.Criterion{Covariance: covariance(1), Threshold: 1}
		}
	}
	if !plain {
		for range w.r.IntN(3) {
			p.Stages = append(p.Stages, glm.Stage{Theta: p.Theta, Covariance: covariance(0.1),
				Width: w.r.Float64() / 2})
		}
	}
	return p
}

// request is a decision as choose.py is asked for it, and what a device does.
type request struct {
	Context  map[string]any `json:"context"`
	Arms     []any          `json:"arms"`
	Default  any            `json:"default"`
	Exclude  []any          `json:"exclude"`
	Learning bool           `json:"learning"`
	Draws    []float64      `json:"draws"`

	arm           int
	probabilities []float64
	ids           []string
}

// words gives random numbers that were written down.
type words struct{ left []float64 }

func (w *words) Uint64() uint64 {
	u := w.left[0]
	w.left = w.left[1:]
	return uint64(u*(1<<53)) << 11
}

// ask makes a random request, with the decision of a device.
func (w *world) ask(t testing.TB, plain bool) request {
	t.Helper()
	k := 1 + w.r.IntN(6)
	q := request{Context: map[string]any{}, Exclude: []any{}, Learning: w.r.IntN(2) == 0 && !plain,
		Draws: []float64{float64(w.r.Uint64()>>11) * 0x1p-53, float64(w.r.Uint64()>>11) * 0x1p-53}}
	var rows [][]float64
	if w.schema == nil {
		for range k {
			x := make([]float64, w.policy.Dimension)
			for i := range x {
				x[i] = w.r.NormFloat64() * math.Pow(10, float64(w.r.IntN(4)-2))
			}
			rows, q.Arms = append(rows, x), append(q.Arms, x)
		}
	} else {
		arms := make([]feature.Arm, k)
		ids := w.r.Perm(len(hostile))
		q.Context = w.values(w.schema.Context())
		for i := range arms {
			arms[i] = feature.Arm{ID: hostile[ids[i]], Features: w.values(w.schema.Arms())}
			all := map[string]any{"id": arms[i].ID}
			for name, v := range arms[i].Features {
				all[name] = v
			}
			q.Arms, q.ids = append(q.Arms, all), append(q.ids, arms[i].ID)
		}
		var err error
		if rows, err = w.schema.Encode(q.Context, arms); err != nil {
			t.Fatal(err)
		}
	}
	c := glm.Choice{Default: w.r.IntN(k), Unrecorded: !q.Learning}
	q.Default = c.Default
	for a := range k {
		if w.r.IntN(5) == 0 && len(c.Excluded) < k-1 {
			c.Excluded, q.Exclude = append(c.Excluded, a), append(q.Exclude, a)
		}
	}
	d, err := w.policy.DecideFor(rows, c, &words{q.Draws})
	if err != nil {
		t.Fatal(err)
	}
	q.arm = d.Arm
	if q.probabilities, err = w.policy.ProbabilitiesFor(rows, c); err != nil {
		t.Fatal(err)
	}
	return q
}

// values are random features of fields, some of them missing.
func (w *world) values(fields []feature.Field) map[string]any {
	out := map[string]any{}
	for _, f := range fields {
		if f.Name == feature.ID || w.r.IntN(6) == 0 {
			continue
		}
		switch f.Kind {
		case feature.Number:
			out[f.Name] = *f.Low + (*f.High-*f.Low)*(1.2*w.r.Float64()-0.1)
		case feature.Buckets:
			out[f.Name] = f.Thresholds[0] + float64(w.r.IntN(9)-2)/2
		case feature.Flag:
			out[f.Name] = w.r.IntN(2) == 0
		case feature.Category:
			out[f.Name] = f.Values[w.r.IntN(len(f.Values))]
			if f.Other && w.r.IntN(4) == 0 {
				out[f.Name] = "not listed"
			}
		default:
			out[f.Name] = hostile[w.r.IntN(len(hostile))]
		}
	}
	return out
}

// python runs a program in a folder, with what it reads, and gives what it prints. Without Python a test is skipped,
// but in CI it fails.
func python(t *testing.T, folder, program, input string) string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("python3 is missing: this test runs programs that it writes")
		}
		t.Skip("python3 is missing")
	}
	cmd := exec.CommandContext(t.Context(), path, "-I", "-c", fmt.Sprintf("import sys; sys.path.insert(0, %q)\n%s",
		folder, program))
	cmd.Dir, cmd.Stdin = folder, strings.NewReader(input)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	return string(out)
}

// withValue is a policy that plays the arm of that id before "none".
func withValue(t *testing.T, value string) *policyfile.File {
	t.Helper()
	text, err := json.Marshal(map[string]any{"version": 1, "terms": [][]string{{"id"}}, "arms": []map[string]any{
		{"name": "id", "kind": "category", "values": []string{"none", value}, "baseline": true}}})
	if err != nil {
		t.Fatal(err)
	}
	return withSchema(t, string(text))
}

// withSchema is a greedy policy of a schema, whose first coefficient is 1 and whose others are 0.
func withSchema(t *testing.T, schema string) *policyfile.File {
	t.Helper()
	s, err := feature.Parse([]byte(schema))
	if err != nil {
		t.Fatal(err)
	}
	theta := make([]float64, s.Dimension())
	theta[0] = 1
	f, err := policyfile.New(&plan.Announcement{Deployment: "test", Epoch: 2, Schema: s.Canonical(),
		Policy: glm.Policy{Profile: glm.Practical, Family: family.NameLogistic, MaxReward: 1, Dimension: len(theta),
			Radius: 3, Theta: theta, Play: glm.PlayGreedy}}, [32]byte{}, deployment.Estimate{},
		policyfile.Certificate{Channel: plan.Shuffle, RestsOn: plan.Shuffle.RestsOn()})
	if err != nil {
		t.Fatal(err)
	}
	return f
}
