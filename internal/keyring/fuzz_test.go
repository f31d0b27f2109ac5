package keyring

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// FuzzBundle loads any bytes as a bundle and as the users of the broker. A bundle that loads is written so that it
// loads as the same, names three different keys, and is said in one way: its keys are there as Encode writes them.
func FuzzBundle(f *testing.F) {
	b := Bundle{Deployment: "demo", Analyzer: make(Key, 32), Shuffler: make(Key, 32), Registrar: make(Key, 32),
		Auditor: make(Key, 32)}
	b.Shuffler[0], b.Registrar[0], b.Auditor[0] = 1, 2, 9
	for _, until := range []map[string]uint64{nil, {Analyzer: 7}} {
		b.Until = until
		text, err := b.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"format":"riffle-nats-users-1","users":{"analyzer":["UABC"]}}`))
	root := f.TempDir()
	path := filepath.Join(root, BundleFile)
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, name := range []string{path, filepath.Join(root, UsersFile)} {
			if err := os.WriteFile(name, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if users, err := LoadUsers(root); err != nil && (users != nil || !errors.Is(err, ErrBundle)) {
			t.Fatalf("%v, %v", users, err)
		}
		b, err := LoadBundle(root)
		if err != nil {
			if !errors.Is(err, ErrBundle) {
				t.Fatal(err)
			}
			return
		}
		again, err := b.Encode()
		if err == nil {
			err = os.WriteFile(path, again, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if same, err := LoadBundle(root); err != nil || !reflect.DeepEqual(same, b) && len(b.Auditor)+len(b.Until) > 0 {
			t.Fatalf("%+v is written as %+v, %v", b, same, err)
		}
		if err := b.Validate(); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzAuthority loads any bytes as the broker's authority and as its private key. No bytes but the key of the
// authority load as one, and no error shows what was in the file of the key.
func FuzzAuthority(f *testing.F) {
	root := filepath.Join(f.TempDir(), "keys")
	options := Options{Name: "demo", Brokers: []BrokerOptions{{Name: "nats", Hosts: []string{"nats"}}}}
	if err := Generate(root, options); err != nil {
		f.Fatal(err)
	}
	authority := filepath.Join(root, AuthorityFile)
	key := filepath.Join(root, registrar, authorityKeyFile)
	good, err := os.ReadFile(authority)
	if err != nil {
		f.Fatal(err)
	}
	secret, err := os.ReadFile(key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(append(good, good...))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(authority, text, 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := loadAuthority(root)
		if (a == nil) != (err != nil) || err != nil && !errors.Is(err, ErrCertificate) && !errors.Is(err, ErrMismatch) {
			t.Fatalf("%v, %v", a, err)
		}
		if err := os.WriteFile(authority, good, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(key, text, 0o600); err != nil {
			t.Fatal(err)
		}
		a, err = loadAuthority(root)
		if (a == nil) != (err != nil) ||
			err != nil && !errors.Is(err, ErrCertificate) && !errors.Is(err, ErrMismatch) &&
				len(text) <= 4096 {
			t.Fatalf("%v, %v", a, err)
		}
		if err := os.WriteFile(key, secret, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := loadAuthority(root); err != nil {
			t.Fatal(err)
		}
	})
}
