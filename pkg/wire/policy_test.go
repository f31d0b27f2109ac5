package wire_test

import (
	"errors"
	"math"
	"reflect"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/wire"
	"google.golang.org/protobuf/proto"
)

func TestPolicyRoundTrip(t *testing.T) {
	m := announcement(t).Policy
	p, err := wire.PolicyFromProto(m)
	if err != nil {
		t.Fatal(err)
	}
	want := &glm.Policy{
		Profile: glm.Practical, Epoch: 1, Family: "logistic", MaxReward: 1, Dimension: 2, Radius: 3, Theta: []float64{0.5, math.Copysign(0, -1)},
		Stages: []glm.Stage{
			{Theta: []float64{0.5, -0.25}, Covariance: glm.Symmetric{0.5, 0.1, 0.25}, Width: 1},
			{Theta: []float64{1, -0.5}, Covariance: glm.Symmetric{0.5, 0.1, 0.25}, Width: 1},
		},
		Scaling: &glm.Scaling{
			Stage:    glm.Stage{Theta: []float64{0.25, -0.125}, Covariance: glm.Symmetric{0.5, 0.1, 0.25}, Width: 1},
			Diameter: 6, SelfConcordance: 1, MaxWeight: 0.25,
		},
		Play: glm.PlayDesign, DesignTolerance: 0.1, Pairwise: true, Explore: 0.75,
	}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("got %+v\nwant %+v", p, want)
	}
	back, err := wire.PolicyToProto(p)
	if err != nil || !proto.Equal(back, m) {
		t.Errorf("%v, %v", back, err)
	}
	p.Theta[0], p.Stages[0].Covariance[0] = 7, 7
	if m.Theta[0] == 7 || m.Stages[0].Covariance[0] == 7 {
		t.Error("the converted policy shares memory with the message")
	}
}

// TestPolicyCarriesEveryField: a field that glm adds to its policy, and that the wire does not carry, fails here.
func TestPolicyCarriesEveryField(t *testing.T) {
	for _, c := range []struct {
		of     any
		fields int
	}{{glm.Policy{}, 13}, {glm.Stage{}, 3}, {glm.Scaling{}, 4}} {
		if n := reflect.TypeOf(c.of).NumField(); n != c.fields {
			t.Errorf("%T has %d fields, the wire format knows %d: carry the new one and count it here", c.of, n, c.fields)
		}
	}
}

func TestPolicyToProtoRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		field  string
		change func(*glm.Policy)
	}{
		"profile":  {"profile", func(p *glm.Policy) { p.Profile = "x" }},
		"play":     {"play", func(p *glm.Policy) { p.Play = "x" }},
		"epoch":    {"cohorts", func(p *glm.Policy) { p.Epoch = -1 }},
		"dim":      {"dim", func(p *glm.Policy) { p.Dimension = -1 }},
		"diameter": {"scaling", func(p *glm.Policy) { p.Scaling.Diameter = 5 }},
		"theta":    {"theta", func(p *glm.Policy) { p.Theta[0] = math.NaN() }},
		"psd":      {"content", func(p *glm.Policy) { p.Stages[0].Covariance[0] = -1 }},
	} {
		p, err := wire.PolicyFromProto(announcement(t).Policy)
		if err != nil {
			t.Fatal(err)
		}
		c.change(p)
		_, err = wire.PolicyToProto(p)
		var f *wire.FieldError
		if !errors.As(err, &f) || f.Field != c.field || f.Message != "policy" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStatistics(t *testing.T) {
	for _, k := range []glm.StatisticKind{glm.Hessian, glm.Gradient, glm.Covariance} {
		if wire.StatisticFromProto(wire.StatisticToProto(k)) != k || wire.StatisticToProto(k) == 0 {
			t.Errorf("%v does not convert back", k)
		}
	}
	if wire.StatisticToProto("x") != 0 || wire.StatisticFromProto(0) != "" {
		t.Error("converts what it does not know")
	}
}
