package seal_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/riffle-dp/riffle/pkg/seal"
	"pgregory.net/rapid"
)

func TestReportRotation(t *testing.T) {
	old, current, unknown := fixedKey(t, 1), fixedKey(t, 2), fixedKey(t, 3)
	opener, err := seal.NewReportOpener(current, old)
	if err != nil {
		t.Fatal(err)
	}
	context := seal.ReportContext{Deployment: "d", Epoch: 1, Round: 2}
	for _, k := range []*seal.HPKEKey{old, current} {
		e, err := seal.SealReport(k.Public(), context.AAD(), []byte("report"))
		if err != nil {
			t.Fatal(err)
		}
		if len(e.Ciphertext) != 6+seal.CiphertextOverhead || len(e.Encapsulated) != seal.EncapsulatedSize {
			t.Errorf("sizes %d, %d", len(e.Ciphertext), len(e.Encapsulated))
		}
		plain, err := opener.Open(e, context.AAD())
		if err != nil || string(plain) != "report" {
			t.Errorf("%q, %v", plain, err)
		}
		for _, other := range []seal.ReportContext{{"d", 1, 3}, {"d", 2, 2}, {"e", 1, 2}, {"", 1, 2}, {"dd", 1, 2}} {
			if _, err := opener.Open(e, other.AAD()); !errors.Is(err, seal.ErrOpen) {
				t.Errorf("%+v opens %+v: %v", other, context, err)
			}
		}
	}
	e, err := seal.SealReport(unknown.Public(), context.AAD(), []byte("report"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := opener.Open(e, context.AAD()); !errors.Is(err, seal.ErrUnknownKey) {
		t.Errorf("unknown key: %v", err)
	}
	e.Key = old.Public() // the named key is only a hint
	if _, err := opener.Open(e, context.AAD()); !errors.Is(err, seal.ErrOpen) {
		t.Errorf("wrong key named: %v", err)
	}
	if _, err := seal.NewReportOpener(); !errors.Is(err, seal.ErrKey) {
		t.Errorf("no keys: %v", err)
	}
}

func TestReportTampering(t *testing.T) {
	key := fixedKey(t, 1)
	opener, err := seal.NewReportOpener(key)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		plain := rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "plain")
		aad := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "aad")
		e, err := seal.SealReport(key.Public(), aad, plain)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := opener.Open(e, aad); err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("%x, %v", got, err)
		}
		part := rapid.SampledFrom([]*[]byte{&e.Encapsulated, &e.Ciphertext}).Draw(t, "part")
		switch rapid.IntRange(0, 2).Draw(t, "how") {
		case 0:
			(*part)[rapid.IntRange(0, len(*part)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		case 1:
			*part = (*part)[:rapid.IntRange(0, len(*part)-1).Draw(t, "length")]
		case 2:
			*part = append(*part, 0)
		}
		if got, err := opener.Open(e, aad); err == nil {
			t.Fatalf("opened to %x", got)
		} else if !errors.Is(err, seal.ErrOpen) && !errors.Is(err, seal.ErrSize) {
			t.Fatalf("error %v", err)
		}
	})
}

// TestReportGolden opens a stored envelope: key 32 bytes 0x01, deployment "golden", epoch 3, round 4. Its three lines
// are the encapsulated key, the ciphertext, the plaintext.
func TestReportGolden(t *testing.T) {
	data, err := os.ReadFile("testdata/envelope.golden")
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(data))
	var parts [3][]byte
	for i := range parts {
		if parts[i], err = hex.DecodeString(f[i]); err != nil {
			t.Fatal(err)
		}
	}
	key := fixedKey(t, 1)
	opener, err := seal.NewReportOpener(key)
	if err != nil {
		t.Fatal(err)
	}
	aad := seal.ReportContext{Deployment: "golden", Epoch: 3, Round: 4}.AAD()
	if got := hex.EncodeToString(aad); got != "000000000000000300000004"+hex.EncodeToString([]byte("golden")) {
		t.Errorf("aad %s", got)
	}
	plain, err := opener.Open(seal.Envelope{Key: key.Public(), Encapsulated: parts[0], Ciphertext: parts[1]}, aad)
	if err != nil || !bytes.Equal(plain, parts[2]) {
		t.Errorf("%q, %v", plain, err)
	}
}

func FuzzSealedReport(f *testing.F) {
	key := fixedKey(f, 1)
	opener, err := seal.NewReportOpener(key)
	if err != nil {
		f.Fatal(err)
	}
	e, err := seal.SealReport(key.Public(), []byte("aad"), []byte("plain"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(e.Encapsulated, e.Ciphertext, []byte("aad"))
	f.Add([]byte{}, []byte{}, []byte{})
	f.Fuzz(func(t *testing.T, encapsulated, ciphertext, aad []byte) {
		plain, err := opener.Open(seal.Envelope{Key: key.Public(), Encapsulated: encapsulated, Ciphertext: ciphertext},
			aad)
		if err == nil && len(plain)+seal.CiphertextOverhead != len(ciphertext) {
			t.Fatal("length")
		}
	})
}

// Reports to several keys are sealed at the same time, and a key that the caller changes is another one.
func TestReportsToSeveralKeysAtOnce(t *testing.T) {
	keys := []*seal.HPKEKey{fixedKey(t, 1), fixedKey(t, 2)}
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			key := keys[i%2]
			opener, err := seal.NewReportOpener(key)
			if err != nil {
				t.Error(err)
				return
			}
			for range 50 {
				e, err := seal.SealReport(key.Public(), []byte("aad"), []byte("report"))
				if err != nil {
					t.Error(err)
					return
				}
				if plain, err := opener.Open(e, []byte("aad")); err != nil || string(plain) != "report" {
					t.Errorf("%q, %v", plain, err)
				}
			}
		})
	}
	wait.Wait()
	public := slices.Clone(keys[0].Public())
	if _, err := seal.SealReport(public, nil, nil); err != nil {
		t.Fatal(err)
	}
	clear(public) // of low order now
	if _, err := seal.SealReport(public, nil, nil); !errors.Is(err, seal.ErrKey) {
		t.Errorf("a key that the caller changed: %v", err)
	}
	if _, err := seal.SealReport(nil, nil, nil); !errors.Is(err, seal.ErrKey) {
		t.Errorf("no key: %v", err)
	}
}

func BenchmarkSealReport(b *testing.B) {
	key, err := seal.GenerateHPKE()
	if err != nil {
		b.Fatal(err)
	}
	public, report := key.Public(), make([]byte, 3000)
	for b.Loop() {
		if _, err := seal.SealReport(public, nil, report); err != nil {
			b.Fatal(err)
		}
	}
}
