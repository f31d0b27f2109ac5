package device

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/glm"
)

const onSchema = `{"version":1,"arms":[{"name":"on","kind":"flag"}],"terms":[["bias"],["on"]]}`

// A device encodes as the announced schema says, and follows no announcement whose schema it cannot read in one way or
// whose vectors the policy does not take.
func TestADeviceEncodesByTheAnnouncedSchema(t *testing.T) {
	f := newFixture(t)
	arms := []feature.Arm{{ID: "a", Features: feature.Values{"on": true}}, {ID: "b"}}
	d := must(Open(f.config(), 0, nil))
	if _, err := d.Encode(nil, arms); !errors.Is(err, ErrNoPolicy) {
		t.Error(err)
	}
	a := f.announcement(glm.Practical)
	must(d.Follow(f.announce(a), time.Time{}))
	if _, err := d.Encode(nil, arms); !errors.Is(err, ErrNoSchema) {
		t.Error(err)
	}
	for schema, want := range map[string]string{
		`{`: "not the JSON", strings.Replace(onSchema, ",", ", ", 1): "another form",
		strings.Replace(onSchema, `["bias"],`, "", 1): "vectors of 1 numbers, and the policy's dimension is 2",
	} {
		d := must(Open(f.config(), 0, nil))
		a.Schema = []byte(schema)
		fresh, err := d.Follow(f.announce(a), time.Time{})
		if fresh || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", schema, fresh, err)
		}
	}
	d = must(Open(f.config(), 0, nil))
	a.Schema = []byte(onSchema)
	must(d.Follow(f.announce(a), time.Time{}))
	x, err := d.Encode(nil, arms)
	if err != nil || len(x) != 2 || x[0][1] <= 0 || x[1][0] <= 0 || x[1][1] != 0 {
		t.Error(x, err)
	}
	for excluded := range 2 {
		made, err := d.DecideFor(x, glm.Choice{Excluded: []int{excluded}}, rand.NewPCG(1, 2))
		if err != nil || made.Arm != 1-excluded || made.Propensity != 1 {
			t.Fatal(made, err)
		}
	}
	if _, err := d.Encode(feature.Values{"on": true}, arms); !errors.Is(err, feature.ErrFeatures) {
		t.Error(err)
	}
}
