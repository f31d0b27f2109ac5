package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"reflect"

	"github.com/riffle-dp/riffle/pkg/glm"
)

// maxVersion bounds the bytes of a program's version.
const maxVersion = 256

// PolicyDigest is SHA-256 of a policy, as announcements hold it.
func PolicyDigest(p *glm.Policy) ([32]byte, error) {
	b, err := marshal(policyFields, p)
	if err != nil {
		return [32]byte{}, err
	}
	return sha256.Sum256(b), nil
}

func checkConfiguration(c *Configuration) error {
	if err := CheckDeployment(c.Deployment); err != nil {
		return err
	}
	if c.Batch < 0 || c.Batch > math.MaxInt32 {
		return field("batch", "is %d, must be 0 to %d", c.Batch, math.MaxInt32)
	}
	if err := checkJSON("learner", c.Learner); err != nil {
		return err
	}
	if err := checkJSON("terms", c.Terms); err != nil {
		return err
	}
	if n := len(c.Schema); n > MaxSchema {
		return field("schema", "has %d bytes, at most %d", n, MaxSchema)
	}
	if err := checkJSON("rules", c.Rules); err != nil {
		return err
	}
	return inside("timing.", checkTiming(c.Timing))
}

// checkJSON refuses what JSON does not carry: numbers that are not finite, text that is not UTF-8.
func checkJSON[T any](path string, value T) error {
	b, err := json.Marshal(value)
	if err != nil {
		return field(path, "is refused: %v", err)
	}
	var again T
	if fromJSON(b, &again); !reflect.DeepEqual(again, value) {
		return field(path, "does not survive its JSON form")
	}
	return nil
}

// jsonField is a field of a value's JSON, which checkConfiguration passed; a value of zeros is absent unless it is
// needed. What does not decode is read as zeros: the bytes are then not those of the result, and are refused.
func jsonField[T any](c *coder, n int, at *T, needed bool) {
	var b []byte
	var none T
	if !c.reads && (needed || !reflect.DeepEqual(*at, none)) {
		b, _ = json.Marshal(*at)
	}
	if c.bytes(n, &b); c.reads {
		fromJSON(b, at)
	}
}

func fromJSON[T any](b []byte, into *T) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	var value T
	if d.Decode(&value) == nil {
		*into = value
	}
}

func checkLearned(l *Learned) error {
	if err := checkPlace(l.Deployment, l.Epoch, l.Round); err != nil {
		return err
	}
	for _, d := range []struct {
		path  string
		value []byte
	}{{"announcement", l.Announcement}, {"counts", l.Counts}, {"policy", l.Policy}} {
		if err := checkLength(d.path, d.value, digestSize); err != nil {
			return err
		}
	}
	if n := len(l.Sums); n > MaxReleases || n > 0 && l.Destroyed {
		return field("sums", "has %d entries, must have at most %d, and none if the cohort was destroyed", n,
			MaxReleases)
	}
	for i, s := range l.Sums {
		if n := len(s.Values); n == 0 || n > MaxCoordinates || len(s.Variance) != n {
			return field(fmt.Sprintf("sums[%d]", i),
				"has %d values and %d variances, must have as many of both, 1 to %d",
				n, len(s.Variance), MaxCoordinates)
		}
		for j := range s.Values {
			if x := s.Values[j]; math.IsNaN(x) || math.IsInf(x, 0) {
				return field(fmt.Sprintf("sums[%d].values[%d]", i, j), "is %v, must be finite", x)
			}
			if v := s.Variance[j]; !(v >= 0) || math.IsInf(v, 1) {
				return field(fmt.Sprintf("sums[%d].variance[%d]", i, j), "is %v, must be at least 0 and finite", v)
			}
		}
	}
	if n := len(l.Iterate); n == 0 || n > glm.MaxDimension {
		return field("iterate", "has %d entries, must have 1 to %d", n, glm.MaxDimension)
	}
	for i, x := range l.Iterate {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return field(fmt.Sprintf("iterate[%d]", i), "is %v, must be finite", x)
		}
	}
	for _, e := range []struct {
		path  string
		value float64
	}{{"epsilon", l.Epsilon}, {"epsilon_alone", l.EpsilonAlone}} {
		if !(e.value >= 0) || math.Signbit(e.value) {
			return field(e.path, "is %v, must be at least 0", e.value)
		}
	}
	if len(l.Version) > maxVersion {
		return field("version", "has %d bytes, must have at most %d", len(l.Version), maxVersion)
	}
	if u := l.Unchanged; !(u >= 0 && u <= 1) || math.Signbit(u) {
		return field("unchanged", "is %v, must be in [0, 1]", u)
	}
	if l.Action != "" && l.Action != ActionRollback && l.Action != ActionStop {
		return field("action", "is %q, must be empty, %q or %q", l.Action, ActionRollback, ActionStop)
	}
	for _, of := range []struct {
		path string
		lift *Lift
	}{{"lift", l.Lift}, {"total", l.Total}} {
		if err := checkLift(of.lift); err != nil {
			return inside(of.path+".", err)
		}
	}
	return nil
}

func checkLift(l *Lift) error {
	if l == nil {
		return nil
	}
	for _, of := range []struct {
		path string
		x    float64
	}{
		{"decisions", l.Decisions}, {"treated", l.Treated}, {"control", l.Control}, {"lift", l.Lift}, {"low", l.Low},
		{"high", l.High},
	} {
		if math.IsNaN(of.x) || math.IsInf(of.x, 0) {
			return field(of.path, "is %v, must be finite", of.x)
		}
	}
	if !(l.Low <= l.High) {
		return field("low", "is %v, above high, %v", l.Low, l.High)
	}
	return nil
}
