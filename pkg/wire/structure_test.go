package wire_test

import (
	"math"
	"reflect"
	"testing"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// structuredAnnouncement is one of arms of which one coordinate at most is other than 0: the Hessian has 2 numbers.
func structuredAnnouncement(t testing.TB) *rifflev1.Announcement {
	a := announcement(t)
	a.Policy.Structure = []*rifflev1.Group{{Count: 2, Size: 1, Choice: 7}}
	a.Encodings[0].Coordinates = a.Encodings[0].Coordinates[:2]
	return a
}

func TestStructuresRoundTrip(t *testing.T) {
	roundTrip(t, seal.Announcement, structuredAnnouncement(t))
	if got := openedOf(t, structuredAnnouncement(t)).Policy.Structure; !reflect.DeepEqual(got,
		structure.Structure{{Count: 2, Size: 1, Choice: 7}}) {
		t.Errorf("%+v", got)
	}
	if got := opened(t).Policy.Structure; got != nil {
		t.Errorf("no structure became %+v", got)
	}
}

func TestStructureOutOfRangeIsRefused(t *testing.T) {
	type a = rifflev1.Announcement
	refuses(t, seal.Announcement, func() *a { return structuredAnnouncement(t) }, []bad[a]{
		{"policy", func(m *a) { m.Policy.Structure[0].From = 1 }},
		{"policy", func(m *a) { m.Policy.Structure[0].From = math.MaxUint32 }},
		{"policy", func(m *a) { m.Policy.Structure[0].Count = 1 }},
		{"policy", func(m *a) { m.Policy.Structure[0].Count = 3 }},
		{"policy", func(m *a) { m.Policy.Structure[0].Count = math.MaxUint32 }},
		{"policy", func(m *a) { m.Policy.Structure[0].Size = 0 }},
		{"policy", func(m *a) { m.Policy.Structure[0].Size = 2 }},
		{"policy", func(m *a) { m.Policy.Structure[0].Size = math.MaxUint32 }},
		{"policy", func(m *a) { m.Policy.Structure[0].Choice = structure.MaxGroups + 1 }},
		{"policy", func(m *a) { m.Policy.Structure[0].Choice = math.MaxUint32 }},
		{"policy", func(m *a) {
			for range structure.MaxGroups {
				m.Policy.Structure = append(m.Policy.Structure, m.Policy.Structure[0])
			}
		}},
		{"encodings[0].coordinates", func(m *a) { m.Policy.Structure = nil }},
		{"encodings[0].coordinates", func(m *a) { m.Encodings[0] = announcement(t).Encodings[0] }},
	})
	refuses(t, seal.Announcement, func() *a { return announcement(t) }, []bad[a]{
		{"encodings[0].coordinates", func(m *a) { m.Policy.Structure = structuredAnnouncement(t).Policy.Structure }},
	})
}

// Two policies that differ in their structure alone are told apart.
func TestPolicyDigestCoversTheStructure(t *testing.T) {
	with, err := wire.PolicyDigest(&openedOf(t, structuredAnnouncement(t)).Policy)
	if err != nil {
		t.Fatal(err)
	}
	without, err := wire.PolicyDigest(&opened(t).Policy)
	if err != nil || with == without {
		t.Errorf("%x, %x, %v", with, without, err)
	}
}
