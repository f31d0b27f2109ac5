package population

import (
	"fmt"
	"math"
)

// FeatureMap names a fixed public map from a census row to the feature vectors of the two arms. Nothing in a map is
// fitted to the data: every range is a constant that was chosen before any record was seen.
type FeatureMap string

const (
	// MapB7 has d = 7: arms -x and +x, x seven centred features on the unit sphere. Either arm reveals the label, so it
	// tests the private estimator rather than exploration.
	MapB7 FeatureMap = "b7"
	// MapBlock has d = 8: arms (x, 0) and (0, x), x four features (education, married, gain or loss, constant) on the
	// unit sphere. Each arm has a parameter of its own, so a learner must explore.
	MapBlock FeatureMap = "block"
)

func (m FeatureMap) check() error {
	switch m {
	case MapB7, MapBlock:
		return nil
	}
	return fmt.Errorf("%w: feature map %q; there are %q and %q", ErrOption, string(m), MapB7, MapBlock)
}

// Dim returns the dimension of the map's arms; 0 for an unknown map.
func (m FeatureMap) Dim() int {
	switch m {
	case MapB7:
		return 7
	case MapBlock:
		return 8
	}
	return 0
}

// Person returns a census row as a person with two arms, each of norm 1, and rewards 0 and 1. The map must be one of
// the constants above.
func (m FeatureMap) Person(c Census) Person {
	p := Person{Rewards: []float64{1, 0}}
	if c.Over50K {
		p.Rewards[0], p.Rewards[1] = 0, 1
	}
	d := m.Dim()
	first, second := make([]float64, d), make([]float64, d)
	f := c.features()
	switch m {
	case MapB7:
		copy(second, f[:])
		normalise(second)
		for i, v := range second {
			first[i] = -v
		}
	case MapBlock:
		x := []float64{f[1], f[3], f[4], f[6]}
		normalise(x)
		copy(first[:4], x)
		copy(second[4:], x)
	}
	p.Arms = [][]float64{first, second}
	return p
}

// features returns the seven features of a row before they are scaled to the unit sphere. The last is the constant 1,
// so the norm is at least 1.
func (c Census) features() [7]float64 {
	f := [7]float64{
		clip((c.Age-35)/15, -1, 1),
		clip((c.EducationNum-10)/6, -1, 1),
		clip((c.Hours-40)/20, -1, 1),
		-1, 0, 0, 1,
	}
	switch c.MaritalStatus {
	case "Married-civ-spouse", "Married-AF-spouse":
		f[3] = 1
	}
	if c.CapitalGain > 0 || c.CapitalLoss > 0 {
		f[4] = 1
	}
	switch c.Occupation {
	case "Exec-managerial", "Prof-specialty":
		f[5] = 1
	case "Other-service", "Handlers-cleaners", "Farming-fishing", "Priv-house-serv", "Machine-op-inspct", "?":
		f[5] = -1
	}
	return f
}

func clip(v, low, high float64) float64 { return math.Min(math.Max(v, low), high) }

// normalise scales a non-zero vector to norm 1.
func normalise(x []float64) {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	scale := 1 / math.Sqrt(sum)
	for i := range x {
		x[i] *= scale
	}
}
