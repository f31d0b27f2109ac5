package scoring_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/deployment/policyfile/scoring"
	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// evaluator predicts by a document of PMML with what the elements of PMML 4.4 mean; it knows those that are written.
const evaluator = `
import json, math
import xml.etree.ElementTree as tree
S = "{http://www.dmg.org/PMML-4_4}"

def value(e, row):
    tag = e.tag.replace(S, "")
    if tag == "FieldRef":
        return row.get(e.get("field"))
    if tag == "Constant":
        return {"double": float, "string": str, "boolean": lambda v: v == "true"}[e.get("dataType")](e.text)
    if tag == "Apply":
        v = [value(c, row) for c in e]
        if v[0] is None:
            return None if e.get("mapMissingTo") is None else float(e.get("mapMissingTo"))
        return {"equal": lambda: v[0] == v[1], "isNotIn": lambda: v[0] not in v[1:],
                "if": lambda: v[1] if v[0] else v[2]}[e.get("function")]()
    x = row.get(e.get("field"))
    if x is None:
        return float(e.get("mapMissingTo"))
    if tag == "NormDiscrete":
        return float(x == e.get("value"))
    if tag == "NormContinuous":
        (a, p), (b, q) = [(float(n.get("orig")), float(n.get("norm"))) for n in e]
        assert e.get("outliers") == "asExtremeValues"
        return p if x <= a else q if x >= b else p + (x - a) / (b - a) * (q - p)
    if tag == "Discretize":
        (b,) = e
        (i,) = b
        assert i.get("closure") == "closedOpen"
        inside = float(i.get("leftMargin", "-inf")) <= x < float(i.get("rightMargin", "inf"))
        return float(b.get("binValue") if inside else e.get("defaultValue"))
    raise SystemExit(tag)

for line in sys.stdin:
    one = json.loads(line)
    doc = tree.fromstring(one["document"])
    model = doc.find(S + "RegressionModel")
    names = [m.get("name") for m in model.find(S + "MiningSchema") if m.get("usageType") == "active"]
    assert names == [f.get("name") for f in doc.find(S + "DataDictionary")][1:], names
    out = []
    for row in one["rows"]:
        assert set(row) <= set(names), row
        row = dict(row)
        for f in doc.find(S + "TransformationDictionary") or []:
            row[f.get("name")] = value(f[0], row)
        table = model.find(S + "RegressionTable")
        total = float(table.get("intercept"))
        for e in table:
            if e.tag == S + "NumericPredictor":
                total += float(e.get("coefficient")) * row[e.get("name")]
            else:
                total += float(e.get("coefficient")) * math.prod(row[f.get("field")] for f in e)
        out.append({"logit": lambda z: 1 / (1 + math.exp(-z)), "none": lambda z: z,
                    "probit": lambda z: math.erfc(-z / math.sqrt(2)) / 2}[model.get("normalizationMethod")](total))
    print(json.dumps(out))
`

// The PMML predicts the mean reward of the policy's model to rounding, for features of every kind but hashes, and every
// family that PMML has a link for.
func TestPMMLPredictsTheReward(t *testing.T) {
	t.Parallel()
	families := []string{family.NameLogistic, family.NameProbit, family.NameLinear}
	var input strings.Builder
	var want [][]float64
	for seed := uint64(100); len(want) < worlds; seed++ {
		w := newWorld(t, seed, true)
		w.file.Policy.Family = families[len(want)%len(families)]
		f, err := family.New(w.file.Policy.Family, 1)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := scoring.PMML(w.file)
		if errors.Is(err, scoring.ErrUnsupported) && strings.Contains(err.Error(), "read differently") {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var rows []map[string]any
		var means []float64
		for range 100 {
			context, arm := w.values(w.schema.Context()), w.values(w.schema.Arms())
			id := hostile[w.r.IntN(len(hostile))]
			x, err := w.schema.Encode(context, []feature.Arm{{ID: id, Features: arm}})
			if err != nil {
				t.Fatal(err)
			}
			row := map[string]any{"id": id}
			for _, part := range []map[string]any{context, arm} {
				for name, v := range part {
					row[name] = v
				}
			}
			rows, means = append(rows, row), append(means, f.Mean(convex.Dot(x[0], w.policy.Theta)))
		}
		line, err := json.Marshal(map[string]any{"document": string(doc), "rows": rows})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&input, "%s\n", line)
		want = append(want, means)
	}
	lines := strings.Split(strings.TrimSpace(python(t, t.TempDir(), evaluator, input.String())), "\n")
	for i, means := range want {
		var got []float64
		if err := json.Unmarshal([]byte(lines[i]), &got); err != nil || len(got) != len(means) {
			t.Fatal(err)
		}
		for j := range got {
			if !(math.Abs(got[j]-means[j]) < 1e-12) {
				t.Fatalf("world %d: row %d has the mean %v, PMML says %v", i, j, means[j], got[j])
			}
		}
	}
}

// What XML or a reader of it would change is refused.
func TestPMMLRefusesWhatItCannotSay(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"a\nb", " a", "a ", "\x00", "\u202e"} {
		if _, err := scoring.PMML(withValue(t, value)); !errors.Is(err, scoring.ErrUnsupported) {
			t.Errorf("%q: %v", value, err)
		}
	}
	for _, name := range []string{family.NameGaussian, family.NamePoisson} {
		f := withValue(t, "call")
		f.Policy.Family = name
		if _, err := scoring.PMML(f); !errors.Is(err, scoring.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
