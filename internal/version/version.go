// Package version says which build of Riffle a binary is: the version of the module, the commit, and the Go toolchain.
//
// All of it comes from what the Go tool stamps into a binary (runtime/debug.ReadBuildInfo), so a build needs no flags
// for it: go build in a clone of the repository stamps the commit and, on a commit with a tag such as v0.1.0, that
// version; go install MODULE@VERSION stamps the version.
//
// Not promised: what the Go tool does not stamp is missing here too. Builds by go run and go test, in a linked worktree
// of git, and from a source archive have no commit and the version "(devel)". A packager who builds from a source
// archive gives the version to the linker:
//
//	go build -ldflags '-X github.com/riffle-dp/riffle/internal/version.release=v0.1.0' ./cmd/...
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// module is the path of Riffle's own module.
const module = "github.com/riffle-dp/riffle"

// unknown is the version that the Go tool stamps if it knows none.
const unknown = "(devel)"

// release is the version of a build from a source archive; only the linker sets it. A version that the Go tool stamped
// takes precedence.
var release string

// An Info describes one build. Its JSON form is what riffle version --json prints.
type Info struct {
	Module     string `json:"module"`      // path of the Go module
	Version    string `json:"version"`     // v0.1.0, a pseudo-version if the commit has no tag, or (devel) if unknown
	Commit     string `json:"commit"`      // the full hash; empty if unknown
	CommitTime string `json:"commit_time"` // RFC 3339, UTC; empty if the commit is unknown
	Modified   bool   `json:"modified"`    // whether the tree differed from the commit; also false if unknown
	Go         string `json:"go"`          // version of the toolchain: go1.26.8
	OS         string `json:"os"`          // GOOS that the binary is for
	Arch       string `json:"arch"`        // GOARCH that the binary is for
}

// Read describes the running binary.
func Read() Info {
	build, _ := debug.ReadBuildInfo()
	return of(build, release)
}

// of reads what the Go tool stamped; build is nil if it stamped nothing. release replaces a version that was not
// stamped.
func of(build *debug.BuildInfo, release string) Info {
	info := Info{Module: module, Version: unknown, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if build != nil {
		// Another program that links a package of Riffle has Riffle among its dependencies, and its own commit in the
		// settings.
		if build.Main.Path == module {
			info.Version = build.Main.Version
			for _, s := range build.Settings {
				switch s.Key {
				case "vcs.revision":
					info.Commit = s.Value
				case "vcs.time":
					info.CommitTime = s.Value
				case "vcs.modified":
					info.Modified = s.Value == "true"
				}
			}
		}
		for _, d := range build.Deps {
			if d.Path == module {
				info.Version = d.Version
			}
		}
	}
	if info.Version == "" || info.Version == unknown {
		info.Version = unknown
		if release != "" {
			info.Version = release
		}
	}
	return info
}

// String is the description for people: 3 lines, the first of which is the version, without a newline at the end.
func (i Info) String() string {
	commit := "unknown"
	if i.Commit != "" {
		commit = strings.TrimSpace(i.Commit + " " + i.CommitTime)
	}
	if i.Modified {
		commit += ", with changes that were not committed"
	}
	return fmt.Sprintf("%s\ncommit %s\nbuilt with %s for %s/%s", i.Version, commit, i.Go, i.OS, i.Arch)
}

// Flag gives a command the flag --version, which prints the description of the binary and does nothing else.
func Flag(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().Bool("version", false, "print which build this is, then exit")
	cmd.Version = Read().String() // a template for it would link text/template, and 5 MB that the linker then keeps
	return cmd
}
