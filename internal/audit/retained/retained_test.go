package retained_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit/retained"
	"github.com/riffle-dp/riffle/pkg/seal"
)

func key(t *testing.T, b byte) *seal.HPKEKey {
	t.Helper()
	k, err := seal.NewHPKEKey(bytes.Repeat([]byte{b}, seal.HPKEKeySize))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// An auditor whose key was rotated opens what was sealed to the older one, in its own place only.
func TestOpenTriesEveryKey(t *testing.T) {
	older, newer := key(t, 1), key(t, 2)
	place := seal.RetainedContext{Deployment: "clinic", Epoch: 2, Round: 1, Index: 3}
	sealed, err := seal.SealRetained(older.Public(), place, []byte("chunk"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := retained.Open(sealed, []*seal.HPKEKey{newer, older}, place)
	if err != nil || string(got) != "chunk" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := retained.Open(sealed, []*seal.HPKEKey{newer}, place); !errors.Is(err, retained.ErrKey) {
		t.Errorf("without the older key: %v", err)
	}
	place.Index++
	if _, err := retained.Open(sealed, []*seal.HPKEKey{newer, older}, place); !errors.Is(err, retained.ErrKey) {
		t.Errorf("in another place: %v", err)
	}
}

func ExamplePath() {
	fmt.Println(retained.Path(12, 0, 3))
	// Output: retained/12/0/3
}
