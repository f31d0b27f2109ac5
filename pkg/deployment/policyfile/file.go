// Package policyfile is the form in which a learnt policy leaves a deployment: one JSON file with the policy as it was
// announced, the schema of its features, what each coefficient stands for, its interval, and what learning it cost.
//
// # Format
//
// The file is one JSON object, in the order of the fields of File, indented by two spaces, with a newline at its end.
// Numbers are the shortest decimals that read back as the same float64, digests hexadecimal. Whatever is in it twice
// must agree: the digest and the coefficients with the policy, the names with the schema.
//
// # What it shows
//
// Everything in it was announced, or follows from counts that the analyzer signed: a file holds nothing about people
// that the logs did not. It carries no signature. Who doubts it compares its digest with the one in the epoch's
// certificate (riffle audit export) or has riffle policy export make it again from logs.
package policyfile

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/strict"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Format names the form of the file.
const Format = "riffle-policy-1"

// MaxSize bounds the bytes that are read: a policy of the largest dimension has about a megabyte for each of its
// matrices (glm.MaxDimension), and few of them.
const MaxSize = 64 << 20

// ErrFile wraps every reason to refuse a file.
var ErrFile = errors.New("this is no exported policy")

func bad(format string, v ...any) error {
	return fmt.Errorf("%w: %w", ErrFile, fmt.Errorf(format, v...))
}

// Hex is bytes in hexadecimal in text.
type Hex []byte

// MarshalText is lower-case hexadecimal.
func (h Hex) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(h)), nil }

// UnmarshalText reads hexadecimal.
func (h *Hex) UnmarshalText(text []byte) (err error) {
	*h, err = hex.DecodeString(string(text))
	return err
}

// File is an exported policy.
type File struct {
	Format     string `json:"format"`
	Deployment string `json:"deployment"`
	Epoch      uint64 `json:"epoch"` // from 1, whose devices decide with the policy
	Final      bool   `json:"final"` // the deployment learns no more
	// Cohorts is how many the policy was learnt from; 0: nothing is known.
	Cohorts      int `json:"cohorts"`
	Digest       Hex `json:"digest"`       // of the policy, as the analyzer signs it (wire.PolicyDigest)
	Announcement Hex `json:"announcement"` // digest of the signed announcement
	// Schema says how features become vectors; none: arms are vectors already.
	Schema json.RawMessage `json:"schema,omitempty"`
	Terms  []Term          `json:"terms"`
	// Interval says what the terms' intervals are, or why there are none.
	Interval    string      `json:"interval"`
	Certificate Certificate `json:"certificate"`
	Policy      glm.Policy  `json:"policy"` // as it was announced
}

// Term is a coefficient: what the score of an arm gets for each unit of the entry of that name.
type Term struct {
	Name        string  `json:"name"`
	Coefficient float64 `json:"coefficient"`
	// Low and High are the ends of its interval; both or neither.
	Low  *float64 `json:"low,omitempty"`
	High *float64 `json:"high,omitempty"`
}

// Certificate is what learning reveals about a person, as an audit of the logs computed it.
type Certificate struct {
	Channel plan.Channel `json:"channel"`
	Unit    string       `json:"unit"`     // what is protected
	RestsOn string       `json:"rests_on"` // continues "The guarantee": whom one must trust
	// Epsilon is the largest of what the plans reveal about a unit, EpsilonAlone the same if no other device is honest;
	// none: nothing bounds it. Both are at Delta.
	Epsilon      *float64 `json:"epsilon,omitempty"`
	EpsilonAlone *float64 `json:"epsilon_alone,omitempty"`
	Delta        float64  `json:"delta"`
	Releases     int      `json:"releases"`   // that were counted
	Recomputed   int      `json:"recomputed"` // of them, those whose sums and policy the audit computed again
}

// Bound is an epsilon as a certificate has it.
func Bound(epsilon privacy.Epsilon) *float64 {
	if v := float64(epsilon); convex.IsFinite(v) {
		return &v
	}
	return nil
}

// Spell writes a certificate's epsilon for people.
func Spell(epsilon *float64) string {
	if epsilon == nil {
		return privacy.Spell(math.Inf(1))
	}
	return privacy.Spell(*epsilon)
}

// New is the file of a policy that was announced, with what is known of its parameter.
func New(a *plan.Announcement, announcement [32]byte, e deployment.Estimate, c Certificate) (*File, error) {
	digest, err := wire.PolicyDigest(&a.Policy)
	if err != nil {
		return nil, err
	}
	f := &File{Format: Format, Deployment: a.Deployment, Epoch: a.Epoch, Final: a.Final, Cohorts: e.Cohorts,
		Digest: digest[:], Announcement: announcement[:], Schema: a.Schema, Interval: e.Interval, Certificate: c,
		Policy: a.Policy}
	s, err := f.Features()
	if err != nil {
		return nil, err
	}
	names := Names(s, a.Policy.Dimension)
	for i, v := range a.Policy.Theta {
		t := Term{Name: names[i], Coefficient: v}
		if i < len(e.HalfWidth) {
			low, high := v-e.HalfWidth[i], v+e.HalfWidth[i]
			t.Low, t.High = &low, &high
		}
		f.Terms = append(f.Terms, t)
	}
	return f, f.check()
}

// Names are what coefficients stand for: by a schema, and without one (nil) theta1, theta2 and so on.
func Names(s *feature.Schema, dimension int) []string {
	if s != nil {
		return s.Names()
	}
	names := make([]string, dimension)
	for i := range names {
		names[i] = fmt.Sprintf("theta%d", i+1)
	}
	return names
}

// Features is the schema; nil without one.
func (f *File) Features() (*feature.Schema, error) {
	if len(f.Schema) == 0 {
		return nil, nil
	}
	s, err := feature.Parse(f.Schema)
	if err != nil {
		return nil, bad("the schema: %w", err)
	}
	return s, nil
}

// Decode reads a file and checks that all that is in it fits together. The error wraps ErrFile.
func Decode(text []byte) (*File, error) {
	if len(text) > MaxSize {
		return nil, bad("it has %d bytes, at most %d are read", len(text), MaxSize)
	}
	f := &File{}
	if err := strict.Unmarshal(text, f, strict.Options{}); err != nil {
		return nil, bad("%w", err)
	}
	if f.Format != Format {
		return nil, bad("its format is %q, this program reads %q", f.Format, Format)
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	return f, nil
}

// Encode writes the file in its one form.
func (f *File) Encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(f)
	return b.Bytes(), err
}

// check says what does not fit together.
func (f *File) check() error {
	p := &f.Policy
	if err := p.Validate(); err != nil {
		return bad("%w", err)
	}
	if err := wire.CheckDeployment(f.Deployment); err != nil {
		return bad("%w", err)
	}
	digest, err := wire.PolicyDigest(p)
	if err != nil {
		return bad("%w", err)
	}
	if !bytes.Equal(digest[:], f.Digest) {
		return bad("the policy has the digest %x, and the file says %x: it was changed after the export", digest[:8],
			f.Digest[:min(8, len(f.Digest))])
	}
	if len(f.Announcement) != len(digest) || f.Cohorts < 0 || f.Epoch < 1 {
		return bad("the digest of the announcement has %d bytes, needed are %d, of an epoch from 1 (%d) and of "+
			"cohorts from 0 (%d)", len(f.Announcement), len(digest), f.Epoch, f.Cohorts)
	}
	s, err := f.Features()
	if err != nil {
		return err
	}
	if s != nil && s.Dimension() != p.Dimension {
		return bad("by the schema vectors have %d numbers, and the policy is for %d", s.Dimension(), p.Dimension)
	}
	if len(f.Terms) != p.Dimension {
		return bad("it has %d terms, and the policy %d coefficients", len(f.Terms), p.Dimension)
	}
	names := Names(s, p.Dimension)
	for i, t := range f.Terms {
		switch {
		case t.Name != names[i]:
			return bad("term %d is %q, by the schema it is %q", i, t.Name, names[i])
		case t.Coefficient != p.Theta[i]:
			return bad("the coefficient of %q is %v, in the policy it is %v", t.Name, t.Coefficient, p.Theta[i])
		case (t.Low == nil) != (t.High == nil),
			t.Low != nil && !(*t.Low <= t.Coefficient && t.Coefficient <= *t.High):
			return bad("the interval of %q has one end, or does not hold the coefficient", t.Name)
		}
	}
	return cmp.Or(printable("interval", f.Interval), f.Certificate.check())
}

// printable refuses a text that would do something else to a terminal than to be read.
func printable(name, s string) error {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return bad("its %s has characters that cannot be printed", name)
	}
	return nil
}

func (c Certificate) check() error {
	if !slices.Contains(plan.Channels(), c.Channel) {
		return bad("its channel is %q, and there are %s", c.Channel, strict.List(plan.Channels(), "and"))
	}
	if want := c.Channel.RestsOn(); c.RestsOn != want {
		return bad("it says that its guarantee %.200q, and that of the channel %s %s", c.RestsOn, c.Channel, want)
	}
	below := func(epsilon *float64) bool { return epsilon != nil && !(*epsilon >= 0) }
	if below(c.Epsilon) || below(c.EpsilonAlone) || !(c.Delta >= 0 && c.Delta < 1) || math.Signbit(c.Delta) {
		return bad("epsilon and delta of the certificate must be at least 0, and delta below 1")
	}
	return printable("unit", c.Unit)
}
