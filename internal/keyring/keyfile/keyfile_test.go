package keyfile_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"
	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// kinds writes a fresh key of each kind and loads it again; public is what must survive.
var kinds = map[string]struct {
	write func(t *testing.T, path string) (public string, err error)
	load  func(path string) (public string, err error)
}{
	"identity": {
		func(t *testing.T, path string) (string, error) {
			id, err := seal.GenerateIdentity()
			if err != nil {
				t.Fatal(err)
			}
			return string(id.Public()), keyfile.WriteIdentity(path, id)
		},
		func(path string) (string, error) {
			id, err := keyfile.LoadIdentity(path)
			if err != nil {
				return "", err
			}
			return string(id.Public()), nil
		},
	},
	"hpke": {
		func(t *testing.T, path string) (string, error) {
			key, err := seal.GenerateHPKE()
			if err != nil {
				t.Fatal(err)
			}
			return string(key.Public()), keyfile.WriteHPKE(path, key)
		},
		func(path string) (string, error) {
			key, err := keyfile.LoadHPKE(path)
			if err != nil {
				return "", err
			}
			return string(key.Public()), nil
		},
	},
	"seed": {
		func(t *testing.T, path string) (string, error) {
			pair, err := nkeys.CreateUser()
			if err != nil {
				t.Fatal(err)
			}
			seed, err := pair.Seed()
			if err != nil {
				t.Fatal(err)
			}
			return string(seed), keyfile.WriteSeed(path, seed)
		},
		func(path string) (string, error) { seed, err := keyfile.LoadSeed(path); return string(seed), err },
	},
}

func TestPrivateFilesAreForTheirOwnerAlone(t *testing.T) {
	for kind, k := range kinds {
		t.Run(kind, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "key")
			want, err := k.write(t, path)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := k.load(path); err != nil || got != want {
				t.Fatalf("%q, %v", got, err)
			}
			info, err := os.Stat(path)
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := k.write(t, path); !errors.Is(err, keyfile.ErrExists) {
				t.Errorf("writes over a key: %v", err)
			}
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
				t.Error("a refused write changed the file")
			}
			for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o660, 0o644, 0o666, 0o610, 0o601} {
				if err := os.Chmod(path, mode); err != nil {
					t.Fatal(err)
				}
				if _, err := k.load(path); !errors.Is(err, keyfile.ErrPermissions) ||
					!strings.Contains(err.Error(), "chmod 600 "+path) {
					t.Errorf("mode %v: %v", mode, err)
				}
			}
			if err := os.Chmod(path, 0o400); err != nil {
				t.Fatal(err)
			}
			if _, err := k.load(path); err != nil {
				t.Errorf("mode 0400: %v", err)
			}
		})
	}
}

// TestDamagedFilesAreRefusedWithoutShowingTheKey: whatever is wrong with a file is an error that does not show the key.
func TestDamagedFilesAreRefusedWithoutShowingTheKey(t *testing.T) {
	for kind, k := range kinds {
		path := filepath.Join(t.TempDir(), "key")
		if _, err := k.write(t, path); err != nil {
			t.Fatal(err)
		}
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(good)), "\n")
		last := lines[len(lines)-1]
		f := strings.Fields(last)
		secret := f[min(1, len(f)-1)]
		swapped := []byte(good)
		at := bytes.Index(swapped, []byte(secret)) + 10
		swapped[at] = map[bool]byte{true: 'B', false: 'A'}[swapped[at] == 'A']
		for name, text := range map[string]string{
			"empty":             "",
			"comment only":      "# nothing\n",
			"two keys":          string(good) + last + "\n",
			"another kind":      strings.Replace(string(good), f[0], "riffle-other-private", 1),
			"cut":               string(good[:len(good)-10]),
			"one letter other":  string(swapped),
			"field more":        last + " x\n",
			"not base64":        strings.Replace(string(good), secret, "!"+secret[1:], 1),
			"padding":           strings.Replace(string(good), secret, secret+"=", 1),
			"far too long":      string(good) + strings.Repeat("# comment\n", 1000),
			"public where seed": "UABC",
		} {
			bad := filepath.Join(t.TempDir(), "bad")
			if err := os.WriteFile(bad, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := k.load(bad)
			if !errors.Is(err, keyfile.ErrFormat) {
				t.Errorf("%s, %s: %v", kind, name, err)
				continue
			}
			if strings.Contains(err.Error(), secret[5:20]) || !strings.Contains(err.Error(), bad) {
				t.Errorf("%s, %s: the error shows the key, or does not name the file: %v", kind, name, err)
			}
		}
		if _, err := k.load(t.TempDir()); err == nil {
			t.Errorf("%s: loads a folder", kind)
		}
		if _, err := k.load(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestMalformedPublicKeysAreRefused(t *testing.T) {
	key := bytes.Repeat([]byte{7}, 32)
	if got, err := keyfile.DecodeKey(keyfile.EncodeKey(key)); err != nil || !bytes.Equal(got, key) {
		t.Errorf("%x, %v", got, err)
	}
	for _, text := range []string{"", "A", keyfile.EncodeKey(key) + "=", keyfile.EncodeKey(key[1:]),
		strings.Repeat("/", 43)} {
		if _, err := keyfile.DecodeKey(text); !errors.Is(err, keyfile.ErrFormat) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestFormatIsTheGoldenOne fixes the file format: a key of 32 bytes 1.
func TestFormatIsTheGoldenOne(t *testing.T) {
	const text = "# any comment\n\nriffle-ed25519-private AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE " +
		"iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w\n"
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	id, err := keyfile.LoadIdentity(path)
	if err != nil || !bytes.Equal(id.Bytes(), bytes.Repeat([]byte{1}, 32)) {
		t.Error(err)
	}
}

func FuzzDecodeKey(f *testing.F) {
	f.Add(keyfile.EncodeKey(make([]byte, 32)))
	f.Fuzz(func(t *testing.T, text string) {
		if key, err := keyfile.DecodeKey(text); err == nil && keyfile.EncodeKey(key) != text {
			t.Fatalf("%q is not the one form of its key", text)
		}
	})
}

// A link that is swapped while the file is opened gets nothing read that is open to others.
func TestPermissionsAreThoseOfTheFileThatIsRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "seed")
	files := map[os.FileMode]string{0o600: filepath.Join(dir, "private"), 0o644: filepath.Join(dir, "open")}
	seeds := map[os.FileMode][]byte{}
	for mode, file := range files {
		seed, _, err := keyfile.NewSeed()
		if err != nil {
			t.Fatal(err)
		}
		seeds[mode] = seed
		if err := os.WriteFile(file, seed, mode); err != nil {
			t.Fatal(err)
		}
	}
	point := func(mode os.FileMode) {
		next := path + ".next"
		if err := errors.Join(os.Symlink(files[mode], next), os.Rename(next, path)); err != nil {
			t.Error(err)
		}
	}
	point(0o600)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				point([]os.FileMode{0o600, 0o644}[i%2])
			}
		}
	}()
	read, refused := 0, 0
	const each = 10_000 // so many of both
	for begin := time.Now(); (read < each || refused < each) && time.Since(begin) < 30*time.Second; {
		switch got, err := keyfile.LoadSeed(path); {
		case errors.Is(err, keyfile.ErrPermissions):
			refused++
		case err != nil:
			t.Error(err)
		case !bytes.Equal(got, seeds[0o600]):
			t.Fatalf("after %d reads a file of mode 0644 was read", read)
		default:
			read++
		}
	}
	close(stop)
	<-stopped
	if read == 0 || refused == 0 {
		t.Errorf("%d reads and %d refusals: nothing was tried", read, refused)
	}
}
