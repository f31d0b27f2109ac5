// Command releasetool makes a release of Riffle: see deploy/release, which runs it, and "Releases" in
// docs/development.md.
//
// It builds one commit from a fresh clone, so that neither uncommitted changes nor files that git ignores can get in.
// The files are a function of the commit, the version and the Go toolchain: archives and SBOMs carry the time of the
// commit, and no path, user or time of the machine that made them. --check verifies this with a second build.
//
// Not promised: the images are not the same byte for byte, because Docker writes the time into them; the binaries
// inside them are. A different Go toolchain makes different binaries.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
)

const usage = `Makes a release: static binaries for each platform in an archive, an SBOM for each binary, SHA256SUMS,
and the images if a Docker engine answers. It builds the last commit; changes that are not committed are left out.

  deploy/release                                      a test run, with the version that Go gives the commit
  deploy/release --version v0.1.0 --check             a release, built a second time and compared
  deploy/release --platform linux/arm64 --no-images   one platform
  deploy/release --notice                             update the list of modules in NOTICE

Flags:
`

// options is what the command line asks for.
type options struct {
	version   string     // empty: what Go stamps
	out       string     // empty: out/VERSION
	platforms []platform // empty: all
	binaries  []string   // empty: all
	check     bool
	noImages  bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// run does what the command line asks for, with the repository of the current folder.
func run(ctx context.Context, args []string, log io.Writer) error {
	var o options
	var onlyNotice bool
	flags := flag.NewFlagSet("deploy/release", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	flags.StringVar(&o.version, "version", "",
		"version of the release, `vX.Y.Z`; a tag of that name must name this commit")
	flags.StringVar(&o.out, "out", "",
		"`folder` to write to, from the top of the repository; it must be empty (default out/VERSION)")
	flags.BoolVar(&o.check, "check", false, "build twice, in two folders with two build caches, and compare every file")
	flags.BoolVar(&o.noImages, "no-images", false, "make no images")
	flags.BoolVar(&onlyNotice, "notice", false, "update the list of modules in NOTICE, and do nothing else")
	flags.Func("platform", "build only this platform, `OS/ARCH`; may be repeated (default all six)",
		choice(allPlatforms, &o.platforms))
	flags.Func("binary", "build only this `binary`; may be repeated (default all four)",
		choice(allBinaries, &o.binaries))
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	root, err := output(ctx, ".", nil, "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	if onlyNotice {
		_, now, err := notice(ctx, root)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(root, "NOTICE"), []byte(now), 0o644)
	}
	return release(ctx, root, o, log)
}

// choice is a flag that adds one of all to chosen.
func choice[T any](all []T, chosen *[]T) func(string) error {
	return func(text string) error {
		for _, v := range all {
			if fmt.Sprint(v) == text {
				*chosen = append(*chosen, v)
				return nil
			}
		}
		return fmt.Errorf("it must be one of %v", all)
	}
}

// release makes the release of the last commit of the repository at root.
func release(ctx context.Context, root string, o options, log io.Writer) (err error) {
	if len(o.platforms) == 0 {
		o.platforms = allPlatforms
	}
	if len(o.binaries) == 0 {
		o.binaries = allBinaries
	}
	temp, err := os.MkdirTemp("", "riffle-release-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	dirty, err := output(ctx, root, nil, "git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if dirty != "" {
		fmt.Fprintf(log, "!!! These changes are not committed. They are NOT part of the release:\n%s\n", dirty)
	}
	commit, err := output(ctx, root, nil, "git", "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	src, err := checkout(ctx, root, filepath.Join(temp, "first"), commit, o.version)
	if err != nil {
		return err
	}
	out := o.out
	if out == "" {
		out = filepath.Join(root, "out", src.version)
	}
	fmt.Fprintf(log, "release %s of commit %s, with %s\n", src.version, src.commit, src.toolchain)
	if err := build(ctx, src, o, "", out, log); err != nil {
		return err
	}
	if o.check {
		// The same commit, although there may be a later one by now, in a folder whose path has another length, with a
		// cache that holds nothing of the first build.
		fmt.Fprintln(log, "building again in another folder with an empty build cache")
		again, err := checkout(ctx, root, filepath.Join(temp, "the", "second", "folder"), commit, o.version)
		if err != nil {
			return err
		}
		second := filepath.Join(temp, "out")
		if err := build(ctx, again, o, filepath.Join(temp, "cache"), second, log); err != nil {
			return err
		}
		files, err := compare(out, second)
		if err != nil {
			return err
		}
		fmt.Fprintf(log, "the two builds are the same byte for byte: %d files\n", files)
	}
	if !o.noImages {
		if err := images(ctx, src, filepath.Join(temp, "run"), out, log); err != nil {
			return err
		}
	}
	fmt.Fprintf(log, "the release is in %s\n", out)
	return nil
}

// output runs a program and gives what it printed on standard output, without surrounding space. env is added to the
// environment. An error holds what the program printed on standard error.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	text, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, exit.Stderr)
	}
	return strings.TrimSpace(string(text)), err
}
