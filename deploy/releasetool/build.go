package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// A platform is what one set of binaries is for.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// executable is the name of a binary's file on this platform.
func (p platform) executable(name string) string {
	if p.os == "windows" {
		return name + ".exe"
	}
	return name
}

var (
	allPlatforms = []platform{
		{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"},
		{"windows", "arm64"},
	}
	allBinaries = []string{"randomizer", "shuffler", "analyzer", "riffle"}
)

func parsePlatform(text string) (platform, error) {
	system, arch, _ := strings.Cut(text, "/")
	p := platform{system, arch}
	if !slices.Contains(allPlatforms, p) {
		return p, fmt.Errorf("the platforms are %v", allPlatforms)
	}
	return p, nil
}

// linkerFlags leave out the symbol table and the debugging information.
const linkerFlags = "-s -w"

// environment is what a build depends on beyond its source: no setting of the machine may change the outcome. cache is
// the folder of the build cache; empty: the user's own.
func (p platform) environment(cache string) []string {
	env := []string{
		"GOOS=" + p.os, "GOARCH=" + p.arch, "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0", "GOWORK=off",
		"GOEXPERIMENT=", "GOFIPS140=off", "GODEBUG=",
		"GOFLAGS=-mod=readonly", // an empty value would leave what go env -w has set
	}
	if cache != "" {
		env = append(env, "GOCACHE="+cache)
	}
	return env
}

// build makes all files of the release in the folder out: the archives, the SBOMs and SHA256SUMS.
func build(ctx context.Context, src source, o options, cache, out string, log io.Writer) (err error) {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	staging, err := os.MkdirTemp("", "riffle-staging-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(staging)) }()
	for _, p := range o.platforms {
		begin := time.Now()
		files, err := buildPlatform(ctx, src, p, o.binaries, cache, staging, out)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		archive := src.name(p) + ".tar.gz"
		write := writeTarGzip
		if p.os == "windows" {
			archive, write = src.name(p)+".zip", writeZip
		}
		size, err := create(filepath.Join(out, archive), func(w io.Writer) error { return write(w, files, src.time) })
		if err != nil {
			return err
		}
		fmt.Fprintf(log, "%-60s %6.1f MB %4.0f s\n", archive, float64(size)/1e6, time.Since(begin).Seconds())
	}
	return writeSums(out)
}

// name is what the files of a platform begin with.
func (s source) name(p platform) string {
	return fmt.Sprintf("riffle_%s_%s_%s", s.version, p.os, p.arch)
}

// buildPlatform builds the binaries of a platform, writes an SBOM for each, and gives the files of the archive.
func buildPlatform(
	ctx context.Context, src source, p platform, binaries []string, cache, staging, out string,
) ([]file, error) {
	dir := filepath.Join(staging, p.os+"-"+p.arch) + string(filepath.Separator)
	args := []string{"build", "-trimpath", "-buildvcs=true", "-ldflags", linkerFlags, "-o", dir}
	packages := make([]string, len(binaries))
	for i, name := range binaries {
		packages[i] = "./cmd/" + name
	}
	env := p.environment(cache)
	if _, err := output(ctx, src.dir, env, "go", append(args, packages...)...); err != nil {
		return nil, err
	}
	modules, err := linkedModules(ctx, src.dir, env, shipped)
	if err != nil {
		return nil, err
	}
	notice, err := os.ReadFile(filepath.Join(src.dir, "NOTICE"))
	if err != nil {
		return nil, err
	}
	top := src.name(p) + "/"
	var files []file
	for _, name := range binaries {
		content, err := os.ReadFile(dir + p.executable(name))
		if err != nil {
			return nil, err
		}
		info, err := buildinfo.Read(bytes.NewReader(content))
		if err != nil {
			return nil, err
		}
		if err := verify(info, content, src, p); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if err := named(info, notice, modules); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		bom, err := sbom(info, content, name, src, p, modules)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(out, src.name(p)+"_"+name+".cdx.json"), bom, 0o644); err != nil {
			return nil, err
		}
		files = append(files, file{top + p.executable(name), 0o755, content})
	}
	for _, name := range []string{"LICENSE", "NOTICE", "README.md", "CHANGELOG.md", "SECURITY.md"} {
		content, err := os.ReadFile(filepath.Join(src.dir, name))
		if err != nil {
			return nil, err
		}
		files = append(files, file{top + name, 0o644, content})
	}
	texts, err := licenceTexts(src.dir, modules)
	return append(files, file{top + "third-party-licences.txt", 0o644, texts}), err
}

// verify checks that a binary is what the release says it is: stamped with the version and the commit, built without
// cgo and without paths, and on Linux static. info is what the Go tool stamped into it.
func verify(info *debug.BuildInfo, content []byte, src source, p platform) error {
	settings := map[string]string{"version": info.Main.Version}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	for key, want := range map[string]string{
		"version": src.version, "vcs.revision": src.commit, "vcs.modified": "false", "CGO_ENABLED": "0",
		"-trimpath": "true", "GOOS": p.os, "GOARCH": p.arch,
	} {
		if settings[key] != want {
			return fmt.Errorf("its build information says %s = %q, want %q", key, settings[key], want)
		}
	}
	if bytes.Contains(content, []byte(src.dir)) {
		return fmt.Errorf("it holds the path of the folder in which it was built, %s", src.dir)
	}
	if p.os == "linux" {
		f, err := elf.NewFile(bytes.NewReader(content))
		if err != nil {
			return err
		}
		if libraries, err := f.ImportedLibraries(); err != nil || len(libraries) > 0 || f.Section(".interp") != nil {
			return fmt.Errorf("it is not static: it needs %v (%v)", libraries, err)
		}
	}
	return nil
}

// named checks that NOTICE has a line for every module that a binary is linked from, as go version -m shows them.
func named(info *debug.BuildInfo, notice []byte, modules []module) error {
	for _, d := range info.Deps {
		i := slices.IndexFunc(modules, func(m module) bool { return m.path == d.Path && m.version == d.Version })
		if i < 0 || !bytes.Contains(notice, []byte("\n"+modules[i].line())) {
			return fmt.Errorf("NOTICE lacks %s %s: run deploy/release --notice and commit it", d.Path, d.Version)
		}
	}
	return nil
}
