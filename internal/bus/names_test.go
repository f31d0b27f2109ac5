package bus

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/riffle-dp/riffle/internal/testing/fixedseed"
)

func TestSubjectsReadBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		epoch, round, index := rapid.Uint64().Draw(t, "epoch"), rapid.Uint32().Draw(t, "round"), rapid.Uint32().Draw(t,
			"index")
		e, r, _, err := parseRound(subjectRound(SubjectManifest, epoch, round), SubjectManifest, false)
		if err != nil || e != epoch || r != round {
			t.Fatalf("manifest of %d, %d reads as %d, %d, %v", epoch, round, e, r, err)
		}
		e, r, i, err := parseRound(subjectChunk(epoch, round, index), SubjectMixed, true)
		if err != nil || e != epoch || r != round || i != index {
			t.Fatalf("chunk of %d, %d, %d reads as %d, %d, %d, %v", epoch, round, index, e, r, i, err)
		}
	})
}

func TestMalformedSubjectsAreRefused(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "1", "1.", ".1", "1.2.3", "01.2", "1.02", "+1.2", "-1.2", "1.4294967296",
		"18446744073709551616.0", "a.b", "1. 2"} {
		if _, _, _, err := parseRound(SubjectManifest+"."+s, SubjectManifest, false); !errors.Is(err, ErrBadName) {
			t.Errorf("%q: %v", s, err)
		}
	}
	if _, _, _, err := parseRound(SubjectMixed+".1.2", SubjectManifest, false); !errors.Is(err, ErrBadName) {
		t.Errorf("another prefix: %v", err)
	}
}

// What is accepted is what would be written: one round has one subject.
func FuzzParseRound(f *testing.F) {
	for _, s := range []string{"riffle.v1.mixed.1.2.3", "riffle.v1.mixed.01.2.3", "riffle.v1.mixed.1.2", "",
		"riffle.v1.mixed."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, r, i, err := parseRound(s, SubjectMixed, true)
		if err == nil && subjectChunk(e, r, i) != s {
			t.Errorf("%q reads as %d, %d, %d", s, e, r, i)
		}
	})
}

func TestTokensHoldNoSeparator(t *testing.T) {
	t.Parallel()
	for s, ok := range map[string]bool{"a": true, "A-z_09": true, "": false, "a.b": false, "*": false, ">": false,
		"a b": false, "é": false,
		strings.Repeat("a", maxKind): true, strings.Repeat("a", maxKind+1): false} {
		if err := checkToken("kind", s, maxKind); (err == nil) != ok {
			t.Errorf("%q: %v", s, err)
		}
	}
}
