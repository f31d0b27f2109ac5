package statistic_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
)

// structures of six coordinates: options, a shared coordinate, a category within an option's run.
func structures() []structure.Structure {
	return []structure.Structure{
		structure.Options(2, 3), structure.Options(3, 2), structure.Options(6, 1),
		{{From: 0, Count: 2, Size: 2}}, {{From: 0, Count: 2, Size: 3}, {From: 1, Count: 2, Size: 1}},
		{{From: 1, Count: 2, Size: 2}, {Count: 2, Size: 1}},
	}
}

// A structured outer product is the full one without the entries that are 0 whatever the arm, and gives the same
// matrix.
func TestStructuredVectorsLeaveOutOnlyZeros(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		st := rapid.SampledFrom(structures()).Draw(r, "structure")
		arm := rapid.SliceOfN(rapid.SampledFrom([]float64{0, 0, 0.25, -0.5, 2}), 6, 6).Draw(r, "arm")
		record := statistic.Record{Arm: arm, Reward: 1, Weight: 0.5}
		for _, full := range statistics(t, family.Logistic{}, []float64{0.2, -1, 0, 0.5, 1, 0.3}) {
			s := full
			s.Structure = st
			v, err := s.Vector(nil, record)
			if !st.Fits(arm) {
				if !errors.Is(err, statistic.ErrStructure) {
					r.Errorf("%s of an arm that does not fit: %v", s.Kind, err)
				}
				continue
			}
			if err != nil {
				r.Fatal(err)
			}
			b, err := s.Bounds()
			if err != nil {
				r.Fatal(err)
			}
			if len(v) != s.Dim() || len(b.Lower) != s.Dim() || len(b.Upper) != s.Dim() {
				r.Errorf("%s: %d numbers, %d bounds, Dim says %d", s.Kind, len(v), len(b.Lower), s.Dim())
			}
			if msg := violation(b, v, make([]float64, len(v))); msg != "" {
				r.Errorf("%s: %s", s.Kind, msg)
			}
			all, err := full.Vector(nil, record)
			if err != nil {
				r.Fatal(err)
			}
			switch s.Kind {
			case statistic.Hessian, statistic.Covariance:
				if s.Dim() != st.Pairs(6) || !slices.Equal(s.Matrix(v).RawSymmetric().Data,
					full.Matrix(all).RawSymmetric().Data) {
					r.Errorf("%s of %v: another matrix", s.Kind, arm)
				}
				if math.Abs(norm(v)-norm(all)) > 1e-15 {
					r.Errorf("%s of %v: norm %v, the full one %v", s.Kind, arm, norm(v), norm(all))
				}
			default:
				if !slices.Equal(v, all) {
					r.Errorf("%s of %v: %v, without structure %v", s.Kind, arm, v, all)
				}
			}
		}
	})
}

// Whatever a person did that does not fit counts as null, in every statistic of the round alike.
func TestRecordsThatDoNotFitCountAsNull(t *testing.T) {
	good := statistic.Record{Arm: []float64{0.5, 0, 0, 0}, Reward: 1, Weight: 1}
	bad := statistic.Record{Arm: []float64{0.5, 0, 0, 1e-9}, Reward: 1, Weight: 1}
	for _, s := range append(statistics(t, family.Logistic{}, make([]float64, 4)), rewards(t)) {
		s.Structure = structure.Options(2, 2)
		want, err := s.Report(nil, []statistic.Record{good}, 2)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Report(nil, []statistic.Record{bad, good}, 2)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; without the record that does not fit %v", s.Kind, got, err, want)
		}
	}
}

func rewards(t *testing.T) statistic.Statistic {
	t.Helper()
	s, err := statistic.NewRewards(family.Logistic{}, 4)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStatisticsOfAWrongStructure(t *testing.T) {
	s, err := statistic.NewCovariance(4, 1)
	if err != nil {
		t.Fatal(err)
	}
	s.Structure = structure.Options(3, 2)
	if err := s.Validate(); !errors.Is(err, statistic.ErrInvalid) || !errors.Is(err, structure.ErrInvalid) {
		t.Errorf("six coordinates of four: %v", err)
	}
	g, err := statistic.NewGradient(family.Logistic{}, make([]float64, 4))
	if err != nil {
		t.Fatal(err)
	}
	s.Structure = structure.Options(2, 2)
	if _, err := statistic.JointSpread(s, g); !errors.Is(err, statistic.ErrInvalid) {
		t.Errorf("the spread of statistics of different structures: %v", err)
	}
}

func norm(v []float64) float64 { return distance(v, make([]float64, len(v))) }

// What follows from the structure is worked out once for a report, however many decisions it has: an announced
// structure of many groups must not keep a device busy for hours.
func TestAReportWorksOutItsStructureOnce(t *testing.T) {
	const d = 40
	many := structure.Structure{{Count: d, Size: 1}}
	for i := range structure.MaxGroups - 1 {
		many = append(many, structure.Group{From: i % (d - 2), Count: 2, Size: 1})
	}
	s, err := statistic.NewCovariance(d, 1)
	if err != nil {
		t.Fatal(err)
	}
	s.Structure = many
	arm := make([]float64, d)
	arm[3] = 0.5
	allocations := func(n int) float64 {
		records := make([]statistic.Record, n)
		for i := range records {
			records[i] = statistic.Record{Arm: arm, Weight: 1}
		}
		return testing.AllocsPerRun(3, func() {
			if v, err := s.Report(nil, records, n); err != nil || len(v) != d || math.Abs(v[3]-0.25) > 1e-12 {
				t.Error(v, err)
			}
		})
	}
	if one, hundred := allocations(1), allocations(100); hundred > one+50 {
		t.Errorf("%v allocations for one decision, %v for 100", one, hundred)
	}
}
