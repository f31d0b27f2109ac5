package seal_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/cloudflare/circl/dh/x25519"
	"github.com/riffle-dp/riffle/pkg/seal"
	"pgregory.net/rapid"

	_ "github.com/riffle-dp/riffle/internal/testing/fixedseed"
)

// fixedKey is a key whose bytes are all b, for golden vectors.
func fixedKey(t testing.TB, b byte) *seal.HPKEKey {
	t.Helper()
	k, err := seal.NewHPKEKey(bytes.Repeat([]byte{b}, seal.HPKEKeySize))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func sealer(t testing.TB, public []byte, context [32]byte) *seal.BitSealer {
	t.Helper()
	s, err := seal.NewBitSealer(public, context)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestBitRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key, err := seal.NewHPKEKey(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "key"))
		if err != nil {
			t.Fatal(err)
		}
		context := [32]byte(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "context"))
		s, err := seal.NewBitSealer(key.Public(), context)
		if err != nil {
			t.Fatal(err)
		}
		release, coordinate, one := rapid.Uint8().Draw(t, "release"), rapid.Uint16().Draw(t, "coordinate"),
			rapid.Bool().Draw(t, "one")
		prefix := rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(t, "prefix")
		message, err := s.AppendSeal(bytes.Clone(prefix), release, coordinate, one)
		if err != nil {
			t.Fatal(err)
		}
		if len(message) != len(prefix)+seal.BitSize || !bytes.HasPrefix(message, prefix) {
			t.Fatalf("appended %d bytes, want %d", len(message)-len(prefix), seal.BitSize)
		}
		r, c, o, err := seal.NewBitOpener(key, context).Open(message[len(prefix):])
		if err != nil || r != release || c != coordinate || o != one {
			t.Fatalf("got (%d, %d, %v, %v), want (%d, %d, %v)", r, c, o, err, release, coordinate, one)
		}
	})
}

func TestBitRefusals(t *testing.T) {
	key, other := fixedKey(t, 1), fixedKey(t, 2)
	context := [32]byte{7}
	message, err := sealer(t, key.Public(), context).AppendSeal(nil, 1, 2, true)
	if err != nil {
		t.Fatal(err)
	}
	opener := seal.NewBitOpener(key, context)
	under := circlSeal(t, key.Public(), append([]byte("riffle/v1/bit"), context[:]...), []byte{0, 1, 2, 1}, nil)
	if _, _, _, err := opener.Open(under); !errors.Is(err, seal.ErrOpen) {
		t.Errorf("the label under the seal: %v", err)
	}
	for i := range message { // every bit of every byte
		for bit := range 8 {
			bad := bytes.Clone(message)
			bad[i] ^= 1 << bit
			if _, _, _, err := opener.Open(bad); !errors.Is(err, seal.ErrOpen) {
				t.Fatalf("byte %d bit %d changed: %v", i, bit, err)
			}
		}
	}
	for _, n := range []int{0, 1, 31, 32, 48, 51} {
		if _, _, _, err := opener.Open(message[:n]); !errors.Is(err, seal.ErrSize) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if _, _, _, err := opener.Open(append(bytes.Clone(message), 0)); !errors.Is(err, seal.ErrSize) {
		t.Errorf("one byte more: %v", err)
	}
	if _, _, _, err := seal.NewBitOpener(other, context).Open(message); !errors.Is(err, seal.ErrOpen) {
		t.Errorf("other key: %v", err)
	}
	if _, _, _, err := seal.NewBitOpener(key, [32]byte{8}).Open(message); !errors.Is(err, seal.ErrOpen) {
		t.Errorf("other context: %v", err)
	}
	lowOrder := append(make([]byte, 32), message[32:]...)
	if _, _, _, err := opener.Open(lowOrder); !errors.Is(err, seal.ErrOpen) {
		t.Errorf("low-order encapsulated key: %v", err)
	}
	for name, plain := range map[string][]byte{"bit 2": {0, 0, 0, 2}, "bit 255": {0, 0, 0, 255}} {
		message := circlBit(t, key.Public(), context, plain)
		if _, _, _, err := opener.Open(message); !errors.Is(err, seal.ErrPlaintext) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBitMessagesShareNothing: no two messages have an encapsulated key or a ciphertext in common, even of equal bits.
func TestBitMessagesShareNothing(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		s := sealer(t, fixedKey(t, 1).Public(), [32]byte{})
		m, err := s.AppendSeal(nil, 0, 0, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{string(m[:32]), string(m[35:])} {
			if seen[part] {
				t.Fatal("two messages share an encapsulated key or a ciphertext")
			}
			seen[part] = true
		}
	}
}

func TestSealerRefusesKeys(t *testing.T) {
	lowOrder := []string{
		strings.Repeat("00", 32),
		"01" + strings.Repeat("00", 31),
		"e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
		"5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		strings.Repeat("00", 31) + "80", // the top bit is ignored by X25519
		"", strings.Repeat("09", 31), strings.Repeat("09", 33),
	}
	for _, k := range lowOrder {
		b, err := hex.DecodeString(k)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := seal.NewBitSealer(b, [32]byte{}); !errors.Is(err, seal.ErrKey) {
			t.Errorf("key %q: %v", k, err)
		}
		if err := seal.CheckHPKEPublic(b); !errors.Is(err, seal.ErrKey) {
			t.Errorf("CheckHPKEPublic(%q): %v", k, err)
		}
		if _, err := seal.SealReport(b, nil, nil); !errors.Is(err, seal.ErrKey) {
			t.Errorf("SealReport to %q: %v", k, err)
		}
	}
}

func TestBitConcurrency(t *testing.T) {
	key := fixedKey(t, 3)
	s, o := sealer(t, key.Public(), [32]byte{9}), seal.NewBitOpener(key, [32]byte{9})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 50 {
				m, err := s.AppendSeal(nil, uint8(g), uint16(i), i%2 == 1)
				if err != nil {
					t.Error(err)
					return
				}
				if r, c, one, err := o.Open(m); err != nil || r != uint8(g) || c != uint16(i) || one != (i%2 == 1) {
					t.Errorf("(%d, %d, %v, %v), want (%d, %d)", r, c, one, err, g, i)
				}
			}
		})
	}
	wg.Wait()
}

// TestBitGolden opens stored messages, so that a change of the format fails. The receiver's key is 32 bytes 0x01, the
// context 32 bytes 0x02. Lines are "ok release coordinate bit hex" or "no hex".
func TestBitGolden(t *testing.T) {
	opener := seal.NewBitOpener(fixedKey(t, 1), [32]byte(bytes.Repeat([]byte{2}, 32)))
	data, err := os.ReadFile("testdata/labelled-bit.golden")
	if err != nil {
		t.Fatal(err)
	}
	var accepted, refused int
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		message, err := hex.DecodeString(f[len(f)-1])
		if err != nil {
			t.Fatal(err)
		}
		release, coordinate, one, err := opener.Open(message)
		switch f[0] {
		case "ok":
			accepted++
			if got := fmt.Sprint(release, coordinate, one); err != nil || got != strings.Join(f[1:4], " ") {
				t.Errorf("%q: got %s, %v", line, got, err)
			}
		case "no":
			refused++
			if err == nil {
				t.Errorf("%q opened", line)
			}
		}
	}
	if accepted < 4 || refused < 6 {
		t.Fatalf("%d accepted, %d refused vectors: the file is not whole", accepted, refused)
	}
}

func FuzzBitMessage(f *testing.F) {
	key := fixedKey(f, 1)
	context := [32]byte(bytes.Repeat([]byte{2}, 32))
	s, o := sealer(f, key.Public(), context), seal.NewBitOpener(key, context)
	m, err := s.AppendSeal(nil, 1, 258, true)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(m)
	f.Add(m[:20])
	f.Add(make([]byte, seal.BitSize))
	f.Fuzz(func(t *testing.T, data []byte) {
		release, coordinate, one, err := o.Open(data)
		if err != nil {
			return
		}
		again, err := s.AppendSeal(nil, release, coordinate, one)
		if err != nil {
			t.Fatal(err)
		}
		if r, c, b, err := o.Open(again); err != nil || r != release || c != coordinate || b != one {
			t.Fatal("no round trip")
		}
	})
}

// x25519Pair is the curve's part of sealing as RFC 9180 spells it: an ephemeral public key and a shared secret.
func x25519Pair(private, public, shared, receiver *x25519.Key) {
	x25519.KeyGen(public, private)
	x25519.Shared(shared, private, receiver)
}

// BenchmarkSealBit reports, besides the time of one message, its ratio to circl's bare X25519 pair, measured in one
// run.
func BenchmarkSealBit(b *testing.B) {
	key := fixedKey(b, 1)
	s := sealer(b, key.Public(), [32]byte{})
	var private, public, shared, receiver x25519.Key
	copy(receiver[:], key.Public())
	private[5] = 7
	buffer := make([]byte, 0, seal.BitSize)
	times := measure(
		func() { buffer, _ = s.AppendSeal(buffer[:0], 0, 1, true) },
		func() { x25519Pair(&private, &public, &shared, &receiver) },
	)
	b.ReportAllocs()
	for b.Loop() {
		buffer, _ = s.AppendSeal(buffer[:0], 0, 1, true)
	}
	b.ReportMetric(times[0]/times[1], "x25519-pairs")
}

// BenchmarkOpenBit reports, besides the time of one message, its ratio to one bare X25519 multiplication, measured in
// one run.
func BenchmarkOpenBit(b *testing.B) {
	key := fixedKey(b, 1)
	m, err := sealer(b, key.Public(), [32]byte{}).AppendSeal(nil, 0, 1, true)
	if err != nil {
		b.Fatal(err)
	}
	o := seal.NewBitOpener(key, [32]byte{})
	var private, shared, sender x25519.Key
	copy(private[:], key.Bytes())
	copy(sender[:], m)
	times := measure(
		func() { _, _, _, err = o.Open(m) },
		func() { x25519.Shared(&shared, &private, &sender) },
	)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, _, err := o.Open(m); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(times[0]/times[1], "x25519-muls")
}
