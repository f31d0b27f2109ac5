package config_test

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/riffle-dp/riffle/internal/role"
)

func TestHelpNamesEverySetting(t *testing.T) {
	golden(t, "help.txt", run(t, defaults(), "--help").stdout)
}

func TestPrintConfigDocumentsEveryKey(t *testing.T) {
	golden(t, "reference.yaml", run(t, defaults(), "--print-config").stdout)
	r := run(t, defaults(), "--print-config", "--config=testdata/faulty.yaml")
	if r.code != role.ExitConfig || r.stdout != "" {
		t.Errorf("a file with faults: exit %d, printed %q", r.code, r.stdout)
	}
}

// What --print-config prints, loaded again, is the configuration that was in force, whatever the values.
func TestPrintedConfigLoads(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"true", "null", "~", "1", "a\nb", " x ", "#",
			"a: b", "*a", "- x", "'", `"`, "1e3", "0x10", "\t"}))
		want := defaults()
		want.Broker.URL = text.Filter(func(s string) bool { return s != "" && s != "unreachable" }).Draw(rt, "url")
		want.Tags = append([]string{}, rapid.SliceOf(text).Draw(rt, "tags")...)
		want.Epsilon = rapid.Float64Range(0, 1e300).Draw(rt, "epsilon")
		want.Cohort.Size = rapid.Uint32Min(1000).Draw(rt, "size")
		want.Cohort.Window = time.Duration(rapid.Int64Min(int64(time.Hour)).Draw(rt, "window"))
		printed := run(t, want, "--print-config").stdout
		path := filepath.Join(dir, "printed.yaml")
		if err := os.WriteFile(path, []byte(printed), 0o600); err != nil {
			rt.Fatal(err)
		}
		r := run(t, defaults(), "--config", path)
		if r.code != role.ExitOK || !reflect.DeepEqual(*r.prepared, want) {
			rt.Fatalf("got %+v\nwant %+v\n%s\n%s", r.prepared, want, r.stderr, printed)
		}
	})
}
