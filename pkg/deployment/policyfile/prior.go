package policyfile

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/strict"
)

// Is reports whether a text names the format of a file, or another version of it.
func Is(text []byte) bool {
	var f struct {
		Format any `json:"format"`
	}
	return json.Unmarshal(text, &f) == nil && f.Format != nil
}

// Policy reads the policy of a file, or one that stands alone as it is announced. It is valid.
func Policy(text []byte) (*glm.Policy, error) {
	if Is(text) {
		f, err := Decode(text)
		if err != nil {
			return nil, err
		}
		return &f.Policy, nil
	}
	p := &glm.Policy{}
	if err := strict.Unmarshal(text, p, strict.Options{}); err != nil {
		return nil, err
	}
	return p, p.Validate()
}

// Prior is what the file knows as another deployment can begin with: the estimate, and the inverse of the covariance of
// its error, which the policy holds where the profile is practical. It is as public as the file. The error wraps
// ErrFile.
func (f *File) Prior() (theta []float64, precision symmetric.Packed, err error) {
	s := f.Policy.Scaling
	if f.Policy.Profile != glm.Practical || s == nil || !slices.Equal(s.Theta, f.Policy.Theta) {
		return nil, nil, fmt.Errorf("%w that can be a prior: it has no covariance of its coefficients; one of the "+
			"profile %s has one, once a cohort is over and unless a rule stopped it", ErrFile, glm.Practical)
	}
	inverse, err := convex.Inverse(s.Covariance.Dense(f.Policy.Dimension))
	if err != nil {
		return nil, nil, fmt.Errorf("%w that can be a prior: its covariance has no inverse: %w", ErrFile, err)
	}
	return f.Policy.Theta, symmetric.Pack(inverse), nil
}
