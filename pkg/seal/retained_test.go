package seal_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/seal"
)

// retainedAt is the place of the golden vector.
var retainedAt = seal.RetainedContext{Deployment: "golden", Epoch: 3, Round: 4, Index: 5, Announcement: [32]byte{6}}

// A retained chunk opens with its key and in its own place, and nowhere else.
func TestARetainedChunkOpensOnlyInItsPlace(t *testing.T) {
	t.Parallel()
	key := fixedKey(t, 1)
	chunk := []byte("a chunk")
	sealed, err := seal.SealRetained(key.Public(), retainedAt, chunk)
	if err != nil || len(sealed) != len(chunk)+seal.EnvelopeOverhead || bytes.Contains(sealed, chunk) {
		t.Fatalf("%d bytes, %v", len(sealed), err)
	}
	if got, err := seal.OpenRetained(key, retainedAt, sealed); err != nil || !bytes.Equal(got, chunk) {
		t.Errorf("%q, %v", got, err)
	}
	other := func(change func(*seal.RetainedContext)) seal.RetainedContext {
		c := retainedAt
		change(&c)
		return c
	}
	for name, c := range map[string]seal.RetainedContext{
		"deployment":   other(func(c *seal.RetainedContext) { c.Deployment = "other" }),
		"epoch":        other(func(c *seal.RetainedContext) { c.Epoch++ }),
		"round":        other(func(c *seal.RetainedContext) { c.Round++ }),
		"index":        other(func(c *seal.RetainedContext) { c.Index++ }),
		"announcement": other(func(c *seal.RetainedContext) { c.Announcement[31]++ }),
	} {
		if _, err := seal.OpenRetained(key, c, sealed); !errors.Is(err, seal.ErrOpen) {
			t.Errorf("another %s: %v", name, err)
		}
	}
	if _, err := seal.OpenRetained(fixedKey(t, 2), retainedAt, sealed); !errors.Is(err, seal.ErrOpen) {
		t.Errorf("another key: %v", err)
	}
	if _, err := seal.OpenRetained(key, retainedAt, sealed[:seal.EnvelopeOverhead-1]); !errors.Is(err, seal.ErrSize) {
		t.Errorf("cut: %v", err)
	}
	if _, err := seal.SealRetained(make([]byte, seal.HPKEKeySize), retainedAt, chunk); !errors.Is(err, seal.ErrKey) {
		t.Errorf("a key of low order: %v", err)
	}
}

// TestRetainedGolden opens a stored chunk: key 32 bytes 0x01, retainedAt. Its two lines are the sealed bytes and what
// they open to.
func TestRetainedGolden(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/retained.golden")
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(data))
	sealed, err := hex.DecodeString(f[0])
	if err != nil {
		t.Fatal(err)
	}
	got, err := seal.OpenRetained(fixedKey(t, 1), retainedAt, sealed)
	if err != nil || hex.EncodeToString(got) != f[1] {
		t.Errorf("%x, %v", got, err)
	}
}
