package scoring

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
	"unicode"

	"github.com/riffle-dp/riffle/pkg/deployment/policyfile"
	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// PMML is the model of the mean reward as PMML 4.4: a RegressionModel that predicts the reward of one arm from the
// fields of the schema. It does not choose: who uses it takes the arm with the largest prediction.
func PMML(f *policyfile.File) ([]byte, error) {
	s, err := scored(f, "PMML")
	if err != nil {
		return nil, err
	}
	link, known := map[string]string{family.NameLogistic: "logit", family.NameProbit: "probit",
		family.NameLinear: "none"}[f.Policy.Family]
	if !known { // counts that are at most R have another mean than exp
		return nil, unsupported("PMML has no link for %s rewards: use the Python", f.Policy.Family)
	}
	if f.Policy.MaxReward != 1 && link != "none" {
		return nil, unsupported("rewards go to %g, and PMML has no link of that range: use the Python",
			f.Policy.MaxReward)
	}
	doc := pmml{Version: "4.4", Space: "http://www.dmg.org/PMML-4_4", Header: pmmlHeader{
		Description: fmt.Sprintf("Mean reward of an arm by a policy that was learnt by Riffle (deployment %s, epoch "+
			"%d, digest %x)", f.Deployment, f.Epoch, []byte(f.Digest)), Application: pmmlApplication{"Riffle"}}}
	m := &doc.Model
	m.Name, m.Function, m.Normalization = f.Deployment, "regression", link
	m.Schema = append(m.Schema, pmmlMining{Name: reward, Usage: "target"})
	doc.Fields = append(doc.Fields, pmmlField{Name: reward, Type: "double", Op: "continuous"})
	for _, field := range append(s.Context(), s.Arms()...) {
		if err := doc.field(field); err != nil {
			return nil, err
		}
	}
	i := 0
	for _, t := range s.Terms() {
		products := [][]pmmlRef{nil}
		for _, field := range t.Fields {
			var longer [][]pmmlRef
			for _, p := range products {
				for place := range field.Width() {
					longer = append(longer, append(p[:len(p):len(p)], pmmlRef{entry(field.Name, place)}))
				}
			}
			products = longer
		}
		for _, p := range products {
			coefficient := f.Policy.Theta[i] * s.Scale()
			switch len(p) {
			case 0:
				m.Table.Intercept += coefficient
			case 1:
				m.Table.Numeric = append(m.Table.Numeric, pmmlNumeric{p[0].Field, coefficient})
			default:
				m.Table.Terms = append(m.Table.Terms, pmmlTerm{f.Terms[i].Name, coefficient, p})
			}
			i++
		}
	}
	var b bytes.Buffer
	b.WriteString(xml.Header)
	e := xml.NewEncoder(&b)
	e.Indent("", "  ")
	if err := e.Encode(doc); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// reward is the name of what is predicted: no field of a schema has a capital letter.
const reward = "Reward"

// entry names a place of a field's block.
func entry(name string, place int) string { return fmt.Sprintf("%s[%d]", name, place) }

// field describes a field, and how it becomes its block.
func (d *pmml) field(f feature.Field) error {
	in := pmmlField{Name: f.Name, Type: "string", Op: "categorical"}
	add := func(place int, e pmmlExpression) {
		d.Derived = append(d.Derived, pmmlDerived{Name: entry(f.Name, place), Type: "double", Op: "continuous",
			pmmlExpression: e})
	}
	first := 0
	if f.Baseline {
		first = 1
	}
	switch f.Kind {
	case feature.Number:
		in.Type, in.Op = "double", "continuous"
		add(0, pmmlExpression{Norm: &pmmlNorm{Field: f.Name, Outliers: "asExtremeValues", Missing: "0",
			Ends: []pmmlEnd{{*f.Low, -1}, {*f.High, 1}}}})
	case feature.Flag:
		in.Type = "boolean"
		add(0, pmmlExpression{If: &pmmlApply{Function: "if", Missing: "0",
			Test: &pmmlApply{Function: "equal", Field: &pmmlRef{f.Name},
				Constants: []pmmlConstant{{"boolean", "true"}}},
			Constants: []pmmlConstant{{"double", "1"}, {"double", "-1"}}}})
	case feature.Buckets:
		in.Type, in.Op = "double", "continuous"
		for i := first; i <= len(f.Thresholds); i++ {
			bin := pmmlInterval{Closure: "closedOpen"}
			if i > 0 {
				bin.Left = &f.Thresholds[i-1]
			}
			if i < len(f.Thresholds) {
				bin.Right = &f.Thresholds[i]
			}
			add(i-first, pmmlExpression{Bins: &pmmlDiscretize{Field: f.Name, Missing: "0", Default: "0",
				Bin: pmmlBin{"1", bin}}})
		}
	default:
		for i, v := range f.Values {
			if strings.ContainsFunc(v, func(r rune) bool { return !unicode.IsPrint(r) }) || strings.TrimSpace(v) != v {
				return unsupported("a value of the field %q has space at an end, or a character that is not "+
					"printable, which programs read differently from XML: use the Python", f.Name)
			}
			in.Values = append(in.Values, pmmlValue{v})
			if i >= first {
				add(i-first, pmmlExpression{Is: &pmmlIs{f.Name, v, "0"}})
			}
		}
		if f.Other {
			in.Values = nil // every text is allowed
			other := &pmmlApply{Function: "if", Missing: "0",
				Test:      &pmmlApply{Function: "isNotIn", Field: &pmmlRef{f.Name}},
				Constants: []pmmlConstant{{"double", "1"}, {"double", "0"}}}
			for _, v := range f.Values {
				other.Test.Constants = append(other.Test.Constants, pmmlConstant{"string", v})
			}
			add(len(f.Values)-first, pmmlExpression{If: other})
		}
	}
	d.Fields = append(d.Fields, in)
	d.Model.Schema = append(d.Model.Schema, pmmlMining{Name: f.Name, Usage: "active", Invalid: "returnInvalid"})
	return nil
}

// The elements of PMML 4.4 that are written, by https://dmg.org/pmml/v4-4-1/.
type (
	pmml struct {
		XMLName xml.Name      `xml:"PMML"`
		Space   string        `xml:"xmlns,attr"`
		Version string        `xml:"version,attr"`
		Header  pmmlHeader    `xml:"Header"`
		Fields  []pmmlField   `xml:"DataDictionary>DataField"`
		Derived []pmmlDerived `xml:"TransformationDictionary>DerivedField"`
		Model   pmmlModel     `xml:"RegressionModel"`
	}
	pmmlHeader struct {
		Description string          `xml:"description,attr"`
		Application pmmlApplication `xml:"Application"`
	}
	pmmlApplication struct {
		Name string `xml:"name,attr"`
	}
	pmmlField struct {
		Name   string      `xml:"name,attr"`
		Op     string      `xml:"optype,attr"`
		Type   string      `xml:"dataType,attr"`
		Values []pmmlValue `xml:"Value"`
	}
	pmmlValue struct {
		Value string `xml:"value,attr"`
	}
	pmmlDerived struct {
		Name string `xml:"name,attr"`
		Op   string `xml:"optype,attr"`
		Type string `xml:"dataType,attr"`
		pmmlExpression
	}
	pmmlExpression struct {
		Norm *pmmlNorm       `xml:"NormContinuous"`
		Is   *pmmlIs         `xml:"NormDiscrete"`
		Bins *pmmlDiscretize `xml:"Discretize"`
		If   *pmmlApply      `xml:"Apply"`
	}
	pmmlNorm struct {
		Field    string    `xml:"field,attr"`
		Missing  string    `xml:"mapMissingTo,attr"`
		Outliers string    `xml:"outliers,attr"`
		Ends     []pmmlEnd `xml:"LinearNorm"`
	}
	pmmlEnd struct {
		From float64 `xml:"orig,attr"`
		To   float64 `xml:"norm,attr"`
	}
	pmmlIs struct {
		Field   string `xml:"field,attr"`
		Value   string `xml:"value,attr"`
		Missing string `xml:"mapMissingTo,attr"`
	}
	pmmlDiscretize struct {
		Field   string  `xml:"field,attr"`
		Missing string  `xml:"mapMissingTo,attr"`
		Default string  `xml:"defaultValue,attr"`
		Bin     pmmlBin `xml:"DiscretizeBin"`
	}
	pmmlBin struct {
		Value    string       `xml:"binValue,attr"`
		Interval pmmlInterval `xml:"Interval"`
	}
	pmmlInterval struct {
		Closure string   `xml:"closure,attr"`
		Left    *float64 `xml:"leftMargin,attr,omitempty"`
		Right   *float64 `xml:"rightMargin,attr,omitempty"`
	}
	pmmlApply struct {
		Function  string         `xml:"function,attr"`
		Missing   string         `xml:"mapMissingTo,attr,omitempty"`
		Test      *pmmlApply     `xml:"Apply"`
		Field     *pmmlRef       `xml:"FieldRef"`
		Constants []pmmlConstant `xml:"Constant"`
	}
	pmmlConstant struct {
		Type  string `xml:"dataType,attr"`
		Value string `xml:",chardata"`
	}
	pmmlRef struct {
		Field string `xml:"field,attr"`
	}
	pmmlMining struct {
		Name    string `xml:"name,attr"`
		Usage   string `xml:"usageType,attr"`
		Invalid string `xml:"invalidValueTreatment,attr,omitempty"`
	}
	pmmlModel struct {
		Name          string       `xml:"modelName,attr"`
		Function      string       `xml:"functionName,attr"`
		Normalization string       `xml:"normalizationMethod,attr"`
		Schema        []pmmlMining `xml:"MiningSchema>MiningField"`
		Table         pmmlTable    `xml:"RegressionTable"`
	}
	pmmlTable struct {
		Intercept float64       `xml:"intercept,attr"`
		Numeric   []pmmlNumeric `xml:"NumericPredictor"`
		Terms     []pmmlTerm    `xml:"PredictorTerm"`
	}
	pmmlNumeric struct {
		Name        string  `xml:"name,attr"`
		Coefficient float64 `xml:"coefficient,attr"`
	}
	pmmlTerm struct {
		Name        string    `xml:"name,attr"`
		Coefficient float64   `xml:"coefficient,attr"`
		Factors     []pmmlRef `xml:"FieldRef"`
	}
)
