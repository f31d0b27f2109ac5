package public_test

import (
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm/public"
)

// The words are those that Python's hashlib has, on every machine; a source has all words of a hash, then the next.
func TestWordsAreTheseNumbers(t *testing.T) {
	if got, want := public.Words("d\x00", 1, 1<<63), [4]uint64{
		0x425e1b4662d3d267, 0x470a7514e607529a, 0xa7f6a252acc1504e, 0xeb93c953d01e1cb2,
	}; got != want {
		t.Errorf("the words are %x, want %x", got, want)
	}
	s := public.NewSource("order of reports", 7)
	for i, want := range []uint64{
		0xccb7545ca09ed8c4, 0x6cb052263693f99d, 0xa98bebbdf90d7422, 0x44ace7576a8c780c, 0xceeb979935359342,
	} {
		if got := s.Uint64(); got != want {
			t.Errorf("word %d is %x, want %x", i, got, want)
		}
	}
}

// Purpose and epoch both change the words, and none is another's.
func TestSourcesDiffer(t *testing.T) {
	seen := map[uint64]bool{}
	for _, s := range []*public.Source{
		public.NewSource("a", 1), public.NewSource("a", 2), public.NewSource("b", 1), public.NewSource("", 1),
	} {
		for range 9 {
			word := s.Uint64()
			if seen[word] {
				t.Fatalf("the word %x comes twice", word)
			}
			seen[word] = true
		}
	}
}
