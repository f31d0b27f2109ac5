package privacy

import (
	"errors"
	"math"
	"testing"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

// ReleaseOf counts on nothing that the encoding does not enforce.
func TestReleaseOfTrustsOnlyTheEncoding(t *testing.T) {
	s := Vector{Name: "s", Lower: []float64{0, 0, -1}, Upper: []float64{1, 1, 1}, Diameter: 1.5}
	e := protocol.Encoding{Scale: 4, NoiseBits: 3, Bias: protocol.BiasHalf,
		Coordinates: []protocol.Coordinate{{Offset: 0, Levels: 4}, {Offset: 0, Levels: 2}, {Offset: -1, Levels: 100}}}
	r, err := ReleaseOf(s, e, 10, 1e-9)
	if err != nil {
		t.Fatal(err)
	}
	if r.Noise != 30 || r.Bias != 0.5 || r.TailDelta != 1e-9 || !(r.Shift >= 6 && r.Shift < 6*(1+1e-9)) {
		t.Errorf("%+v", r)
	}
	// The first moves by its range, the second is clamped to 2 levels, the third's levels do not enlarge its range;
	// where arithmetic can carry a value past its range, the certificate must hear of it.
	if len(r.Blocks) != 3 || r.Blocks[0].Levels != 4 || r.Blocks[1].Levels != 2 ||
		!(r.Blocks[2].Levels >= 8+quantisation && r.Blocks[2].Levels < 8+1e-6) {
		t.Errorf("%+v", r.Blocks)
	}
	for name, change := range map[string]func(*Vector, *protocol.Encoding, *int){
		"levels beyond the quantisation margin": func(_ *Vector, e *protocol.Encoding, _ *int) {
			e.Coordinates[2].Levels = MaxLevels + 1
		},
		"no honest device": func(_ *Vector, _ *protocol.Encoding, n *int) { *n = 0 },
		"a coordinate too many": func(s *Vector, _ *protocol.Encoding, _ *int) {
			s.Lower, s.Upper = s.Lower[:2], s.Upper[:2]
		},
		"no scale":    func(_ *Vector, e *protocol.Encoding, _ *int) { e.Scale = math.NaN() },
		"no diameter": func(s *Vector, _ *protocol.Encoding, _ *int) { s.Diameter = math.NaN() },
	} {
		s, e, n := s, e, 10
		e.Coordinates = append([]protocol.Coordinate(nil), e.Coordinates...)
		change(&s, &e, &n)
		if _, err := ReleaseOf(s, e, n, 1e-9); !errors.Is(err, ErrRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Up to MaxLevels the certificate's margin holds what encoding can lose to arithmetic.
	most := protocol.Encoding{Scale: 1, NoiseBits: 1, Bias: protocol.BiasHalf,
		Coordinates: []protocol.Coordinate{{Levels: MaxLevels}}}
	if slack := most.ShiftSlack(); !(slack <= quantisation*(1+1e-5)) {
		t.Errorf("an encoding of %d levels can lose %v levels, the margin is %v", MaxLevels, slack, quantisation)
	}
	most.Coordinates[0].Levels = 2 * MaxLevels
	if slack := most.ShiftSlack(); slack <= quantisation {
		t.Errorf("MaxLevels is smaller than it need be")
	}
}
