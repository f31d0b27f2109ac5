package audit_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// An export is audited as the logs that it was made from are. Every file in it that is changed, added or exchanged is
// found, and named.
func TestEveryFileOfAnExportIsCovered(t *testing.T) {
	l := made(t, configuration(bits))
	change := func(name string, f func(text []byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, filepath.FromSlash(name))
			text, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, f(text), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	add := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	elsewhere := configuration(joint)
	elsewhere.Seed++
	var others []byte // a certificate of another deployment of the name
	other := made(t, elsewhere)
	if err := audit.Certify(context.Background(), other, other.Bundle, func(epoch uint64, b []byte, why error) error {
		if epoch == 1 {
			others = b
		}
		return why
	}); err != nil {
		t.Fatal(err)
	}
	bundle := func(f func(*keyring.Bundle)) func(*testing.T, string) {
		return change("bundle.json", func([]byte) []byte {
			b := l.Bundle
			f(&b)
			text, err := b.Encode()
			if err != nil {
				t.Fatal(err)
			}
			return text
		})
	}
	uncovered := []audit.What{audit.Uncovered}
	cut := func(text []byte) []byte { return text[:len(text)-2] }
	for name, x := range map[string]struct {
		do   func(*testing.T, string)
		want []audit.What
	}{
		"nothing":      {func(*testing.T, string) {}, nil},
		"a stray file": {add("readme.txt"), []audit.What{audit.Uncovered}},
		"a file for a folder": {func(t *testing.T, dir string) {
			if err := os.RemoveAll(filepath.Join(dir, "retained")); err != nil {
				t.Fatal(err)
			}
			add("retained")(t, dir)
		}, []audit.What{audit.Uncovered}},
		"a stray release":  {add("retained/9/0/0"), []audit.What{audit.Uncovered}},
		"a retained chunk": {change("retained/1/0/0", cut), []audit.What{audit.RetainedForged}},
		"a certificate under another name": {func(t *testing.T, dir string) {
			if err := os.Rename(filepath.Join(dir, "certificates/epoch-1.json"),
				filepath.Join(dir, "certificates/epoch-7.json")); err != nil {
				t.Fatal(err)
			}
		}, []audit.What{audit.CertificateWrong}},
		"a checkpoint that is elsewhere": {func(t *testing.T, dir string) {
			name := filepath.Join(dir, "shuffler.checkpoint")
			if err := os.Rename(name, filepath.Join(filepath.Dir(dir), "elsewhere")); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("../elsewhere", name); err != nil {
				t.Skip(err)
			}
		}, []audit.What{audit.CheckpointForged, audit.CheckpointMissing, audit.Uncovered}},
		"a checkpoint without an end": {change("shuffler.checkpoint", func(text []byte) []byte {
			return append(text, make([]byte, 1<<20)...)
		}), []audit.What{audit.CheckpointForged, audit.CheckpointMissing}},
		"a certificate without an end": {change("certificates/epoch-1.json", func(text []byte) []byte {
			return append(text, make([]byte, 64<<20)...)
		}), []audit.What{audit.CertificateWrong}},
		"another deployment": {bundle(func(b *keyring.Bundle) { b.Deployment = "elsewhere" }), uncovered},
		"another key of the analyzer": {bundle(func(b *keyring.Bundle) { b.Analyzer = other.Bundle.Analyzer }),
			uncovered},
		"another key of the shuffler": {bundle(func(b *keyring.Bundle) { b.Shuffler = other.Bundle.Shuffler }),
			uncovered},
		"another key of the registrar": {bundle(func(b *keyring.Bundle) { b.Registrar = other.Bundle.Registrar }),
			uncovered},
		"keys that cannot be read": {change("bundle.json", cut), []audit.What{audit.Uncovered}},
		"a line is cut off":        {change("analyzer.log", cut), []audit.What{audit.LogRewound, audit.Malformed}},
		"a certificate":            {change("certificates/epoch-1.json", cut), []audit.What{audit.CertificateWrong}},
		"another certificate": {change("certificates/epoch-1.json", func([]byte) []byte { return others }),
			[]audit.What{audit.CertificateWrong}},
		"another checkpoint": {change("shuffler.checkpoint", cut),
			[]audit.What{audit.CheckpointForged, audit.CheckpointMissing}},
		"a log is emptied": {change("shuffler.log", func([]byte) []byte { return nil }),
			[]audit.What{audit.LogRewound, audit.ManifestMissing, audit.Uncovered}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "export")
			if _, err := audit.WriteFolder(context.Background(), dir, l, l.Bundle); err != nil {
				t.Fatal(err)
			}
			x.do(t, dir)
			d, err := audit.OpenFolder(dir)
			if err != nil {
				t.Fatal(err)
			}
			r, err := audit.Check(context.Background(), d, audit.Options{Trust: l.Bundle,
				Auditor: []*seal.HPKEKey{l.Auditor}, AnalyzerKeys: l.HPKE})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(whats(r), x.want) {
				t.Errorf("named %v, want %v%s", whats(r), x.want, list(r))
			}
			if x.want == nil && strings.Contains(strings.Join(r.Notes, " "), "nothing is retained") {
				t.Errorf("%q", r.Notes)
			}
		})
	}
}
