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
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// A platform is what one set of binaries is for.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

var (
	allPlatforms = []platform{
		{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"},
		{"windows", "arm64"},
	}
	allBinaries = []string{"randomizer", "shuffler", "analyzer", "riffle"}
	// documents go into every archive.
	documents = []string{"LICENSE", "NOTICE", "README.md", "CHANGELOG.md", "SECURITY.md"}
)

// linkerFlags leave out the symbol table and the debugging information.
const linkerFlags = "-s -w"

// environment is what a build depends on beyond its source: no setting of the machine may change the result. cache is
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

// name is what the files of a platform begin with.
func (s source) name(p platform) string {
	return fmt.Sprintf("riffle_%s_%s_%s", s.version, p.os, p.arch)
}

// build makes all files of the release in the folder out, which must be empty or not exist: the archives, the SBOMs and
// SHA256SUMS.
func build(ctx context.Context, src source, o options, cache, out string, log io.Writer) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	if entries, err := os.ReadDir(out); err != nil {
		return err
	} else if len(entries) > 0 {
		return fmt.Errorf("%s is not empty: remove it, or choose another folder with --out", out)
	}
	for _, p := range o.platforms {
		begin := time.Now()
		files, err := buildPlatform(ctx, src, p, o.binaries, cache, out)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		name, write := src.name(p)+".tar.gz", writeTarGzip
		if p.os == "windows" {
			name, write = src.name(p)+".zip", writeZip
		}
		var archive bytes.Buffer
		if err := write(&archive, files, src.time); err != nil {
			return err
		}
		size := float64(archive.Len()) / 1e6
		if err := os.WriteFile(filepath.Join(out, name), archive.Bytes(), 0o644); err != nil {
			return err
		}
		fmt.Fprintf(log, "%-60s %6.1f MB %4.0f s\n", name, size, time.Since(begin).Seconds())
	}
	return writeSums(out)
}

// buildPlatform builds the binaries of a platform, writes an SBOM for each, and gives the files of the archive.
func buildPlatform(
	ctx context.Context, src source, p platform, binaries []string, cache, out string,
) (files []file, err error) {
	env := p.environment(cache)
	bin := filepath.Join(src.dir+"-bin", p.String()) + string(filepath.Separator)
	args := []string{"build", "-trimpath", "-buildvcs=true", "-ldflags", linkerFlags, "-o", bin}
	for _, name := range binaries {
		args = append(args, "./cmd/"+name)
	}
	if _, err := output(ctx, src.dir, env, "go", args...); err != nil {
		return nil, err
	}
	modules, err := linkedModules(ctx, src.dir, env, shipped)
	if err != nil {
		return nil, err
	}
	add := func(name string, mode os.FileMode, content []byte) {
		files = append(files, file{src.name(p) + "/" + name, mode, content})
	}
	var notice []byte
	for _, name := range documents {
		content, err := os.ReadFile(filepath.Join(src.dir, name))
		if err != nil {
			return nil, err
		}
		if name == "NOTICE" {
			notice = content
		}
		add(name, 0o644, content)
	}
	texts, err := licenceTexts(src.dir, modules)
	if err != nil {
		return nil, err
	}
	add("third-party-licences.txt", 0o644, texts)
	for _, name := range binaries {
		executable := name
		if p.os == "windows" {
			executable += ".exe"
		}
		content, err := os.ReadFile(bin + executable)
		if err != nil {
			return nil, err
		}
		bom, err := examine(content, name, src, p, notice, modules)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(out, src.name(p)+"_"+name+".cdx.json"), bom, 0o644); err != nil {
			return nil, err
		}
		add(executable, 0o755, content)
	}
	return files, nil
}

// examine checks a binary against the release and against NOTICE, and gives its SBOM.
func examine(content []byte, name string, src source, p platform, notice []byte, modules []module) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	if err := errors.Join(verify(info, content, src, p), named(info, notice, modules)); err != nil {
		return nil, err
	}
	return sbom(info, content, name, src, p, modules)
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

// images makes the images with deploy/build of the clone, tagged with the version, and checks that they hold the same
// binaries as the archive in out for this machine's architecture. If no Docker engine answers, it says so and makes no
// images. run is a folder for the files of deploy/build.
func images(ctx context.Context, src source, run, out string, log io.Writer) error {
	if _, err := output(ctx, src.dir, nil, "docker", "version", "--format", "{{.Server.Version}}"); err != nil {
		fmt.Fprintln(log, "!!! NO IMAGES: no Docker engine answers. Run deploy/release on a machine that has one.")
		return nil
	}
	tag := strings.ReplaceAll(src.version, "+", "-") // a tag cannot hold a plus sign
	p := platform{"linux", runtime.GOARCH}
	cmd := exec.CommandContext(ctx, filepath.Join(src.dir, "deploy", "build"))
	cmd.Dir, cmd.Stdout, cmd.Stderr = src.dir, log, os.Stderr
	cmd.Env = append(os.Environ(), append(p.environment(""), "RIFFLE_RUN="+run, "RIFFLE_TAG="+tag)...)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("deploy/build: %w", err)
	}
	archive, err := os.ReadFile(filepath.Join(out, src.name(p)+".tar.gz"))
	if errors.Is(err, os.ErrNotExist) {
		return nil // this platform was not asked for
	} else if err != nil {
		return err
	}
	return sameBinaries(bytes.NewReader(archive), filepath.Join(run, "bin"))
}
