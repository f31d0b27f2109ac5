package analyzer

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/channel/chunks"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// A release that is not what announcement and manifest promise is rejected as a whole: its counts are published as
// destroyed, the policy stays, and a new cohort is asked for.
func TestRejectedReleases(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *scene, a *plan.Announcement, digest [32]byte, r *release) *release{
		"a chunk is missing": func(_ *scene, _ *plan.Announcement, _ [32]byte, r *release) *release {
			r.chunks[1] = nil
			return r
		},
		"a chunk is another round's": func(s *scene, _ *plan.Announcement, _ [32]byte, r *release) *release {
			c, err := wire.ParseChunk(r.chunks[1])
			s.must(err)
			c.Round++
			r.chunks[1], err = wire.BuildChunk(*c)
			s.must(err)
			return r
		},
		"a chunk is junk": func(_ *scene, _ *plan.Announcement, _ [32]byte, r *release) *release {
			r.chunks[1] = []byte("junk")
			return r
		},
		"a chunk is not the manifest's": func(s *scene, a *plan.Announcement, digest [32]byte, r *release) *release {
			other, _ := s.honest(a, digest, int(r.manifest.Reports))
			r.chunks[1] = other.chunks[1]
			return r
		},
		"chunks are swapped": func(_ *scene, _ *plan.Announcement, _ [32]byte, r *release) *release {
			r.manifest.ChunksDigest = bytes.Repeat([]byte{7}, 32)
			return r
		},
		"another announcement": func(_ *scene, _ *plan.Announcement, _ [32]byte, r *release) *release {
			r.manifest.Announcement = make([]byte, 32)
			return r
		},
		"too few reports": func(s *scene, a *plan.Announcement, digest [32]byte, _ *release) *release {
			few, _ := s.honest(a, digest, int(a.Cohort.Minimum)-1)
			return few
		},
		"more reports than slots": func(s *scene, a *plan.Announcement, digest [32]byte, _ *release) *release {
			many, _ := s.honest(a, digest, int(a.Cohort.Size)+1)
			many.manifest.Enrolled++
			return many
		},
		"a message does not open": func(s *scene, a *plan.Announcement, digest [32]byte, r *release) *release {
			other := digest
			other[3] ^= 1
			return s.replace(a, digest, s.seal(a, other, bit{one: true}))
		},
		"a message names no coordinate": func(s *scene, a *plan.Announcement, digest [32]byte, r *release) *release {
			return s.replace(a, digest, s.seal(a, digest, bit{coordinate: 999, one: true}))
		},
		"a message names no release": func(s *scene, a *plan.Announcement, digest [32]byte, r *release) *release {
			return s.replace(a, digest, s.seal(a, digest, bit{release: 9, one: true}))
		},
		"a coordinate has a surplus": func(s *scene, a *plan.Announcement, digest [32]byte, r *release) *release {
			return s.replace(a, digest, s.seal(a, digest, slices.Repeat([]bit{{one: true}}, 30)...))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, glm.Practical)
			s.start()
			a, digest := s.announcement(1, 0)
			r, _ := s.honest(a, digest, int(a.Cohort.Size))
			s.publish(change(s, a, digest, r))
			if c := s.counts(1, 0); !c.Destroyed || len(c.Releases) != 0 {
				t.Errorf("counts %v", c)
			}
			next, _ := s.announcement(2, 0)
			was, is := a.Policy, next.Policy
			if is.Family != was.Family || !reflect.DeepEqual(is.Theta, was.Theta) || is.Epoch != was.Epoch {
				t.Errorf("the policy changed from %v to %v", was, is)
			}
			s.must(s.stop())
		})
	}
}

// replace is an honest release of a whole cohort in which the first messages are others.
func (s *scene) replace(a *plan.Announcement, digest [32]byte, by []byte) *release {
	s.t.Helper()
	all, _ := bits(a.Encodings, int(a.Cohort.Size), half)
	messages := s.seal(a, digest, all...)
	for i := range len(by) / seal.BitSize { // under the labels of those that they replace
		copy(seal.Label(by[i*seal.BitSize:]), seal.Label(messages[i*seal.BitSize:]))
	}
	copy(messages, by)
	return s.cut(a, digest, messages, int(a.Cohort.Size))
}

// By default the plan counts on one dishonest report, and as many bad messages as it holds are borne: they count as
// zeros, and are accounted by what is wrong with them. One more is too many, and so are two reports' worth.
func TestDishonestMessagesAreBorne(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bad     func(perReport int) int
		refused bool
	}{
		"one malformed message":     {func(int) int { return 1 }, false},
		"a malformed report":        {func(n int) int { return n }, false},
		"a report and one message":  {func(n int) int { return n + 1 }, true},
		"two malformed reports":     {func(n int) int { return 2 * n }, true},
		"one message, none at most": {func(int) int { return 1 }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, glm.Practical)
			s.config.Terms.DishonestReports = DefaultSettings().terms().DishonestReports
			if strings.Contains(name, "none") {
				s.config.Terms.DishonestReports = 0
			}
			s.start()
			a, digest := s.announcement(1, 0)
			if want := uint32(s.config.Terms.DishonestReports); a.Cohort.MaxDishonest != want {
				t.Fatalf("cohort %v, want %d dishonest", a.Cohort, want)
			}
			// What is borne is within what was planned: a device that believes nothing finds the promise kept.
			terms := s.config.Terms
			if g, err := plan.Guarantee(a, 0); err != nil || !(g.Epsilon(terms.Delta) <= terms.Epsilon) {
				t.Errorf("%+v, %v", g, err)
			}
			n := c.bad(a.ReportMessages())
			other := digest
			other[0] ^= 1
			r := s.replace(a, digest, s.seal(a, other, slices.Repeat([]bit{{one: true}}, n)...))
			s.publish(r)
			got := s.counts(1, 0)
			if got.Destroyed != c.refused || len(got.Releases) == 0 != c.refused {
				t.Errorf("%d bad messages: %v", n, got)
			}
			odd := testbed.Refused(s.analyzer.c.Messages, chunks.Undecryptable)
			if !c.refused && (got.Reports != r.manifest.Reports || odd != n) {
				t.Errorf("%d bad messages, account %+v", n, s.analyzer.c.Messages.Balance())
			}
			s.must(s.stop())
		})
	}
}
