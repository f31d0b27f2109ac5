package seal_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/riffle-dp/riffle/pkg/seal"
)

// A run holds the messages of its coordinate, the ones first, behind what dst held, for any length; and no two
// messages of it share an encapsulated key.
func TestARunHoldsItsMessages(t *testing.T) {
	key, context := fixedKey(t, 1), [32]byte{3}
	s, o := sealer(t, key.Public(), context), seal.NewBitOpener(key, context)
	seen := map[string]bool{}
	for _, c := range []struct{ messages, ones int }{{0, 0}, {1, 0}, {1, 1}, {8, 3}, {9, 9}, {17, 16}, {100, 50}} {
		run, err := s.AppendSealRun([]byte("before"), 2, 300, c.messages, c.ones)
		if err != nil || !bytes.HasPrefix(run, []byte("before")) || len(run) != len("before")+c.messages*seal.BitSize {
			t.Fatalf("%+v: %d bytes, %v", c, len(run), err)
		}
		run = run[len("before"):]
		at := 0
		err = o.OpenAll(run, func(release uint8, coordinate uint16, one bool, err error) {
			if err != nil || release != 2 || coordinate != 300 || one != (at < c.ones) {
				t.Errorf("%+v: message %d is (%d, %d, %v, %v)", c, at, release, coordinate, one, err)
			}
			encapsulated := string(run[at*seal.BitSize:][:seal.EncapsulatedSize])
			if seen[encapsulated] {
				t.Errorf("%+v: message %d has the encapsulated key of another one", c, at)
			}
			seen[encapsulated] = true
			at++
		})
		if err != nil || at != c.messages {
			t.Errorf("%+v: %d messages, %v", c, at, err)
		}
	}
	for _, c := range []struct{ messages, ones int }{{1, 2}, {0, 1}, {5, -1}, {-1, 0}, {-1, -1}} {
		if dst, err := s.AppendSealRun([]byte("before"), 0, 0, c.messages, c.ones); err == nil ||
			string(dst) != "before" {
			t.Errorf("%+v: %q, %v", c, dst, err)
		}
	}
}

// OpenAll says of each message what Open says, in order, and opens nothing of another length.
func TestOpenAllIsOpen(t *testing.T) {
	key, context := fixedKey(t, 1), [32]byte{3}
	o := seal.NewBitOpener(key, context)
	messages, err := sealer(t, key.Public(), context).AppendSealRun(nil, 1, 2, 6, 3)
	if err != nil {
		t.Fatal(err)
	}
	messages[1*seal.BitSize+40] ^= 1      // the ciphertext's tag
	clear(messages[4*seal.BitSize:][:32]) // a point of low order
	messages = append(messages, circlBit(t, key.Public(), context, []byte{0, 0, 0, 2})...)
	var at int
	err = o.OpenAll(messages, func(release uint8, coordinate uint16, one bool, err error) {
		r, c, b, want := o.Open(messages[at*seal.BitSize:][:seal.BitSize])
		if !errors.Is(err, want) || release != r || coordinate != c || one != b {
			t.Errorf("message %d: (%d, %d, %v, %v), not (%d, %d, %v, %v)", at, release, coordinate, one, err, r, c, b,
				want)
		}
		if (err != nil) != (at == 1 || at == 4 || at == 6) {
			t.Errorf("message %d: %v", at, err)
		}
		at++
	})
	if err != nil || at != 7 {
		t.Errorf("%d messages, %v", at, err)
	}
	err = o.OpenAll(messages[1:], func(uint8, uint16, bool,
		error) {
		t.Error("a message of another length was opened")
	})
	if !errors.Is(err, seal.ErrSize) {
		t.Errorf("another length: %v", err)
	}
}

// Sealing and opening bit messages makes no garbage.
func TestBitMessagesAllocateNothing(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector puts on the heap what the compiler otherwise keeps on the stack")
	}
	key, context := fixedKey(t, 1), [32]byte{3}
	s, o := sealer(t, key.Public(), context), seal.NewBitOpener(key, context)
	buffer := make([]byte, 0, 20*seal.BitSize)
	ones, broken := 0, 0
	count := func(_ uint8, _ uint16, one bool, err error) {
		if err != nil {
			broken++
		} else if one {
			ones++
		}
	}
	run, err := s.AppendSealRun(nil, 1, 2, 20, 7)
	if err != nil {
		t.Fatal(err)
	}
	run[5*seal.BitSize] ^= 1 // refusing is free too
	for name, f := range map[string]func(){
		"AppendSeal":    func() { buffer, _ = s.AppendSeal(buffer[:0], 1, 2, true) },
		"AppendSealRun": func() { buffer, _ = s.AppendSealRun(buffer[:0], 1, 2, 20, 7) },
		"Open":          func() { _, _, _, _ = o.Open(run[:seal.BitSize]) },
		"OpenAll":       func() { _ = o.OpenAll(run, count) },
	} {
		if n := testing.AllocsPerRun(10, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
	if broken == 0 || ones == 0 {
		t.Errorf("%d ones, %d refused", ones, broken)
	}
}
