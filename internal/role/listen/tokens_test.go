package listen_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/role/listen"
)

const (
	one   = "11111111111111111111111111111111"
	two   = "22222222222222222222222222222222"
	three = "33333333333333333333333333333333"
)

// write puts a text into a file that others do not read.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func bearing(headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for _, h := range headers {
		r.Header.Add("Authorization", h)
	}
	return r
}

// Each token of the file is let in, and nothing else is.
func TestOnlyTokensOfTheFileAreLetIn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	write(t, path, "# who asks\nbackend "+one+"\n\n  batch\t"+two+"  \n")
	tokens, err := listen.OpenTokens(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range []string{"Bearer " + one, "Bearer " + two, "bearer " + one} {
		if err := tokens.Check(bearing(in)); err != nil {
			t.Errorf("%s: %v", in, err)
		}
	}
	for _, out := range [][]string{
		nil, {""}, {"Bearer"}, {"Bearer "}, {one}, {"Basic " + one}, {"Bearer " + three}, {"Bearer " + one[1:]},
		{"Bearer " + one + "1"}, {"Bearer  " + one}, {"Bearer " + one + " "}, {"Bearer backend"},
		{"Bearer " + one, "Bearer " + one}, {"Bearer " + three, "Bearer " + one}, {"Bearer " + one + "," + one},
	} {
		if err := tokens.Check(bearing(out...)); !errors.Is(err, listen.ErrNoToken) {
			t.Errorf("%q: %v", out, err)
		}
	}
}

// A token that is taken out of the file is not let in any more, and one that is put in is, at once; also where the file
// keeps its length, or is replaced by another file. While the file cannot be used, nobody is let in, and that is told
// once.
func TestTokensAreReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	write(t, path, "backend "+one)
	var told []string
	tokens, err := listen.OpenTokens(path, func(err error) {
		text := "well"
		if err != nil {
			text = err.Error()
		}
		told = append(told, text)
	})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(what string, wantOne, wantTwo error) {
		t.Helper()
		for range 2 {
			gotOne, gotTwo := tokens.Check(bearing("Bearer "+one)), tokens.Check(bearing("Bearer "+two))
			if !errors.Is(gotOne, wantOne) || !errors.Is(gotTwo, wantTwo) {
				t.Errorf("%s: %v, %v", what, gotOne, gotTwo)
			}
		}
	}
	expect("first", nil, listen.ErrNoToken)
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, "backend "+two)
	if err := os.Chtimes(path, before.ModTime(), before.ModTime()); err != nil { // as a coarse clock shows it
		t.Fatal(err)
	}
	expect("of the same length", listen.ErrNoToken, nil)
	write(t, path+".new", "backend "+one)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	expect("replaced", nil, listen.ErrNoToken)
	write(t, path, "backend "+one+"\nbatch short")
	expect("with a fault", listen.ErrTokens, listen.ErrTokens)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	expect("gone", listen.ErrTokens, listen.ErrTokens)
	write(t, path, "backend "+one+"\nbatch "+two)
	expect("mended", nil, nil)
	if err := os.Chmod(path, 0o604); err != nil {
		t.Fatal(err)
	}
	expect("open to others", listen.ErrTokens, listen.ErrTokens)
	if len(told) != 4 || !strings.Contains(told[0], "line 2") || told[2] != "well" ||
		!strings.Contains(told[3], "chmod") {
		t.Errorf("told %q", told)
	}
	for _, text := range told {
		if strings.Contains(text, one) || strings.Contains(text, two) || strings.Contains(text, "short") {
			t.Errorf("%q shows a token", text)
		}
	}
}

// A file with a fault is refused at the start, with its line and nothing of a token.
func TestTokensWithFaultsAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":               "no token",
		"# " + one:       "no token",
		one:              "line 1: want a name and a token",
		"\na b " + one:   "line 2: want a name and a token",
		"a " + one[1:]:   "line 1: a token has 32",
		"a " + one + "é": "line 1: a token has 32",
		"-a " + one:      "line 1: a name has",
		"a" + strings.Repeat("a", 64) + " " + one: "line 1: a name has",
		"a " + one + "\na " + two:                 "line 2: the name or the token",
		"a " + one + "\nb " + one:                 "line 2: the name or the token",
		strings.Repeat("a", 1<<17):                "too long",
	} {
		path := filepath.Join(t.TempDir(), "tokens")
		write(t, path, text)
		_, err := listen.OpenTokens(path, nil)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), one[1:]) {
			t.Errorf("%.40q: %v", text, err)
		}
	}
	if _, err := listen.OpenTokens(filepath.Join(t.TempDir(), "none"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// FuzzTokens reads any bytes as a file of tokens: each token that is taken is a long one, under a name of its own, and
// an error shows none.
func FuzzTokens(f *testing.F) {
	f.Add([]byte("# x\nbackend " + one + "\nbatch " + two))
	f.Add([]byte("backend\x00 " + one))
	f.Add([]byte("a " + one + "\r\nb " + two + "=="))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := listen.ParseTokens(text)
		if (err == nil) != (len(all) > 0) {
			t.Fatalf("%d tokens, %v", len(all), err)
		}
		for name := range all {
			if name == "" || strings.ContainsAny(name, " \t\n#") {
				t.Fatalf("the name %q", name)
			}
		}
		if err == nil {
			return
		}
		for _, word := range strings.Fields(string(text)) {
			if len(word) >= 32 && strings.Contains(err.Error(), word) {
				t.Fatalf("%v", err)
			}
		}
	})
}
