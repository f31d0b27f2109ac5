package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/version"
)

// riffleSays runs riffle with these arguments and gives what it printed.
func riffleSays(t *testing.T, args ...string) string {
	t.Helper()
	out, _, err := execute(t, "", args...)
	if err != nil {
		t.Fatalf("riffle %s: %v", strings.Join(args, " "), err)
	}
	return out
}

func TestVersionCommandAndFlagSayTheSame(t *testing.T) {
	text := riffleSays(t, "version")
	if want := "riffle version " + version.Read().String() + "\n"; text != want || riffleSays(t, "--version") != want {
		t.Errorf("version prints\n%s--version prints\n%swant\n%s", text, riffleSays(t, "--version"), want)
	}
	var info version.Info
	d := json.NewDecoder(strings.NewReader(riffleSays(t, "version", "--json")))
	d.DisallowUnknownFields()
	if err := d.Decode(&info); err != nil || info != version.Read() {
		t.Errorf("version --json says %+v (%v), want %+v", info, err, version.Read())
	}
}
