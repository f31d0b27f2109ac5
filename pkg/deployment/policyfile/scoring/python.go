// Package scoring writes a policy as a program that needs nothing else, for those who decide where no device of Riffle
// runs:
//
//	python.go, choose.py   a file for Python, of its standard library alone
//	sql.go                 a query
//	pmml.go                PMML, the mark-up of predictive models
//
// Whatever comes from a schema can be any text. It enters a program only as a literal that the program's own language
// has, with what is not printable escaped, or not at all.
package scoring

import (
	"bytes"
	_ "embed" // choose.py
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/riffle-dp/riffle/pkg/deployment/policyfile"
	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

// ErrUnsupported wraps every reason why a policy cannot be written in a form. The text says what to use instead.
var ErrUnsupported = errors.New("this policy cannot be written in this form")

func unsupported(format string, v ...any) error {
	return fmt.Errorf("%w: %s", ErrUnsupported, fmt.Sprintf(format, v...))
}

//go:embed choose.py
var choose string

// head is the beginning of the file. Its verbs: name of the deployment, epoch, digest, and what is played.
const head = `"""Chooses an arm by a policy that was learnt by Riffle (deployment %s, epoch %d).

    import choose
    arm, probabilities = choose.choose(context, arms)

The function takes the numbers of a person and of the arms, and does what a device of the deployment does, bit for bit
where floating-point numbers are those of IEEE 754. It needs Python 3.8 or newer and nothing else. help(choose.choose)
says more.%s

Digest of the policy: %x
Written by riffle policy export; do not edit.
"""
import bisect
import hashlib
import math
import numbers
import random
import sys

# What an entry of an arm's vector adds to its score, for people to read. The numbers that count are below.
COEFFICIENTS = {
%s}

_POLICY = %s

_SCHEMA = %s
`

// Python is the policy as a Python file with one function, choose, that plays as a device does.
func Python(f *policyfile.File) ([]byte, error) {
	p := &f.Policy
	if err := linear(p); err != nil {
		return nil, err
	}
	if p.Family != family.NameLinear && slices.ContainsFunc(p.Stages, func(s glm.Stage) bool { return s.Means }) {
		return nil, unsupported("it compares means of rewards that are not linear: use the JSON")
	}
	schema, err := f.Features()
	if err != nil {
		return nil, err
	}
	limits := "" // to what the file does
	if schema != nil && len(schema.Limits()) > 0 {
		limits = "\n\nA device plays some arms only so often in one epoch. Nothing here counts: exclude an arm that " +
			"was played\noften enough."
	}
	if p.Play == glm.PlayDesign || p.Play == glm.PlaySpanner {
		limits += "\n\nDevices explore by an optimal design, which is not computed here: choose refuses learning=True."
	}
	var coefficients strings.Builder
	for _, t := range f.Terms {
		fmt.Fprintf(&coefficients, "    %s: %s,\n", text(t.Name), number(t.Coefficient))
	}
	policy, err := literal(decides(p))
	if err != nil {
		return nil, err
	}
	features, err := literal(encodes(schema))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, head, f.Deployment, f.Epoch, limits, []byte(f.Digest), coefficients.String(), policy, features)
	b.WriteString(choose)
	return b.Bytes(), nil
}

// linear refuses a policy whose scores are no sums of coefficients.
func linear(p *glm.Policy) error {
	if len(p.Trees) > 0 {
		return unsupported("it learnt trees and no coefficients: use the JSON")
	}
	return nil
}

// deciding is what choose.py needs of a policy.
type deciding struct {
	Play       glm.Play         `json:"play"`
	Dimension  int              `json:"dimension"`
	Structure  []group          `json:"structure"`
	Theta      []float64        `json:"theta"`
	Stages     []glm.Stage      `json:"stages"`
	Explore    float64          `json:"explore"`
	Gamma      float64          `json:"gamma"`
	Draws      [][]float64      `json:"draws"`
	Control    float64          `json:"control"`
	Caution    float64          `json:"caution"`
	Covariance symmetric.Packed `json:"covariance"`
	Criterion  *glm.Criterion   `json:"criterion"`
	Optimism   *glm.Stage       `json:"optimism"`
}

// group is a structure.Group with all its fields.
type group struct {
	From   int `json:"from"`
	Count  int `json:"count"`
	Size   int `json:"size"`
	Choice int `json:"choice"`
}

func decides(p *glm.Policy) deciding {
	d := deciding{Play: p.Play, Dimension: p.Dimension, Structure: []group{}, Theta: p.Theta,
		Stages: append([]glm.Stage{}, p.Stages...), Explore: p.Explore, Gamma: p.Gamma,
		Draws: append([][]float64{}, p.Draws...), Control: p.Control, Caution: p.Caution, Criterion: p.Criterion,
		Optimism: p.Optimism}
	for _, g := range p.Structure {
		d.Structure = append(d.Structure, group(structure.Group{From: g.From, Count: g.Count, Size: g.Size,
			Choice: g.Choice}))
	}
	if p.Scaling != nil {
		d.Covariance = p.Scaling.Covariance
	}
	return d
}

// encoding is what choose.py needs of a schema.
type encoding struct {
	Scale   float64          `json:"scale"`
	Context map[string]field `json:"context"`
	Arms    map[string]field `json:"arms"`
	Terms   []term           `json:"terms"`
}

type field struct {
	Kind       feature.Kind `json:"kind"`
	Low        *float64     `json:"low"`
	High       *float64     `json:"high"`
	Values     []string     `json:"values"`
	Other      bool         `json:"other"`
	Thresholds []float64    `json:"thresholds"`
	Buckets    int          `json:"buckets"`
	Baseline   bool         `json:"baseline"`
}

type term struct {
	Offset int     `json:"offset"`
	Fields [][]any `json:"fields"` // name and width of each
}

func encodes(s *feature.Schema) *encoding {
	if s == nil {
		return nil
	}
	fields := func(all []feature.Field) map[string]field {
		out := map[string]field{}
		for _, f := range all {
			out[f.Name] = field{Kind: f.Kind, Low: f.Low, High: f.High, Values: f.Values, Other: f.Other,
				Thresholds: f.Thresholds, Buckets: f.Buckets, Baseline: f.Baseline}
		}
		return out
	}
	e := &encoding{Scale: s.Scale(), Context: fields(s.Context()), Arms: fields(s.Arms())}
	for _, t := range s.Terms() {
		one := term{Offset: t.Offset, Fields: [][]any{}}
		for _, f := range t.Fields {
			one.Fields = append(one.Fields, []any{f.Name, f.Width()})
		}
		e.Terms = append(e.Terms, one)
	}
	return e
}

// literal is a value's JSON as a Python expression.
func literal(v any) (string, error) {
	encoded, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	d := json.NewDecoder(bytes.NewReader(encoded))
	d.UseNumber()
	var b strings.Builder
	err = express(&b, d, 0)
	return b.String(), err
}

// express writes the next value of d. What is nearest to the top has a line for each entry.
func express(b *strings.Builder, d *json.Decoder, depth int) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	switch v := t.(type) {
	case json.Delim:
		b.WriteRune(rune(v))
		for n := 0; d.More(); n++ {
			switch {
			case depth < 1:
				b.WriteString("\n    ")
			case n > 0:
				b.WriteByte(' ')
			}
			if v == '{' {
				key, err := d.Token()
				if err != nil {
					return err
				}
				fmt.Fprintf(b, "%s: ", text(fmt.Sprint(key)))
			}
			if err := express(b, d, depth+1); err != nil {
				return err
			}
			b.WriteByte(',')
		}
		if depth < 1 {
			b.WriteByte('\n')
		}
		closing, err := d.Token()
		if err != nil {
			return err
		}
		fmt.Fprint(b, closing)
	case string:
		b.WriteString(text(v))
	case bool:
		b.WriteString(map[bool]string{true: "True", false: "False"}[v])
	case nil:
		b.WriteString("None")
	default:
		fmt.Fprint(b, v)
	}
	return nil
}

// text is a literal of Python: what is not printable is escaped, and the escapes of Go for valid UTF-8 mean the same
// there.
func text(s string) string { return strconv.Quote(strings.ToValidUTF8(s, "�")) }

// number is the shortest literal that reads back as the same float64.
func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
