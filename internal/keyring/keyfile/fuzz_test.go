package keyfile_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// FuzzKeyFile loads any bytes as a file of each kind of key. What loads is a key that is written so that it loads as
// the same; everything else is a fault of the format that shows nothing of what was read.
func FuzzKeyFile(f *testing.F) {
	folder := f.TempDir()
	id, err := seal.NewIdentity(bytes.Repeat([]byte{1}, 32))
	if err != nil {
		f.Fatal(err)
	}
	key, err := seal.NewHPKEKey(bytes.Repeat([]byte{2}, 32))
	if err != nil {
		f.Fatal(err)
	}
	good := filepath.Join(folder, "identity")
	if err := errors.Join(keyfile.WriteIdentity(good, id), keyfile.WriteHPKE(good+"2", key)); err != nil {
		f.Fatal(err)
	}
	for _, path := range []string{good, good + "2"} {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
		f.Add(append(text, text...))
	}
	// A seed of the library's own documentation.
	f.Add([]byte("SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY\n"))
	path, again := filepath.Join(folder, "any"), filepath.Join(folder, "again")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(again)
		id, err := keyfile.LoadIdentity(path)
		said(t, text, err)
		if err == nil {
			if err := keyfile.WriteIdentity(again, id); err != nil {
				t.Fatal(err)
			}
			if same, err := keyfile.LoadIdentity(again); err != nil || !bytes.Equal(same.Bytes(), id.Bytes()) {
				t.Fatalf("another identity: %v", err)
			}
		}
		key, err := keyfile.LoadHPKE(path)
		said(t, text, err)
		if err == nil {
			if err := keyfile.WriteHPKE(again, key); err != nil {
				t.Fatal(err)
			}
			if same, err := keyfile.LoadHPKE(again); err != nil || !bytes.Equal(same.Bytes(), key.Bytes()) {
				t.Fatalf("another HPKE key: %v", err)
			}
		}
		seed, err := keyfile.LoadSeed(path)
		said(t, text, err)
		if err == nil && !bytes.Equal(seed, bytes.TrimSpace(text)) {
			t.Fatal("another seed")
		}
	})
}

// said checks that an error is of the format, and holds none of the words of the file.
func said(t *testing.T, text []byte, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if !errors.Is(err, keyfile.ErrFormat) {
		t.Fatal(err)
	}
	for word := range bytes.FieldsSeq(text) {
		if len(word) >= 32 && bytes.Contains([]byte(err.Error()), word) {
			t.Fatalf("the error shows what is in the file: %v", err)
		}
	}
}
