package version

import (
	"bytes"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

const commit = "8e80172b2813bffc4c2c5410dd2bf0e2327f4669"

func stamped(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
	return &debug.BuildInfo{Main: debug.Module{Path: module, Version: version}, Settings: settings}
}

func vcs(modified string) []debug.BuildSetting {
	return []debug.BuildSetting{
		{Key: "-trimpath", Value: "true"}, {Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: commit},
		{Key: "vcs.time", Value: "2026-11-22T00:10:07Z"}, {Key: "vcs.modified", Value: modified},
	}
}

func TestInfoIsWhatTheGoToolStamped(t *testing.T) {
	here := func(i Info) Info {
		i.Module, i.Go, i.OS, i.Arch = module, runtime.Version(), runtime.GOOS, runtime.GOARCH
		return i
	}
	const at = "2026-11-22T00:10:07Z"
	library := &debug.BuildInfo{
		Main: debug.Module{Path: "example.org/app", Version: "v9.9.9"},
		Deps: []*debug.Module{{Path: module, Version: "v0.1.0"}}, Settings: vcs("false"),
	}
	for _, c := range []struct {
		name    string
		build   *debug.BuildInfo
		release string
		want    Info
	}{
		{"tag", stamped("v0.1.0", vcs("false")...), "", Info{Version: "v0.1.0", Commit: commit, CommitTime: at}},
		{"changes", stamped("v0.1.0+dirty", vcs("true")...), "",
			Info{Version: "v0.1.0+dirty", Commit: commit, CommitTime: at, Modified: true}},
		{"go install", stamped("v0.1.0"), "", Info{Version: "v0.1.0"}},
		{"go run", stamped("(devel)"), "", Info{Version: "(devel)"}},
		{"go test", stamped(""), "", Info{Version: "(devel)"}},
		{"nothing stamped", nil, "", Info{Version: "(devel)"}},
		{"source archive", stamped("(devel)"), "v0.1.0", Info{Version: "v0.1.0"}},
		{"the stamp wins over the linker", stamped("v0.2.0"), "v0.1.0", Info{Version: "v0.2.0"}},
		{"library of another program", library, "", Info{Version: "v0.1.0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, want := of(c.build, c.release), here(c.want); got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestDescriptionNamesCommitAndChanges(t *testing.T) {
	got := Info{
		Version: "v0.1.0", Commit: commit, CommitTime: "2026-11-22T00:10:07Z", Modified: true,
		Go: "go1.26.8", OS: "linux", Arch: "arm64",
	}
	want := "v0.1.0\ncommit " + commit + " 2026-11-22T00:10:07Z, with changes that were not committed\n" +
		"built with go1.26.8 for linux/arm64"
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if text := (Info{Version: "(devel)"}).String(); !strings.Contains(text, "commit unknown\n") {
		t.Errorf("a build without a commit is described as\n%s", text)
	}
}

func TestVersionFlagPrintsAndDoesNothingElse(t *testing.T) {
	var out bytes.Buffer
	cmd := Flag(&cobra.Command{Use: "shuffler", RunE: func(*cobra.Command, []string) error {
		t.Error("the command ran")
		return nil
	}})
	cmd.Flags().String("keys", "", "a flag that the command cannot do without")
	if err := cmd.MarkFlagRequired("keys"); err != nil {
		t.Fatal(err)
	}
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--version"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	if want := "shuffler version " + Read().String() + "\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}
