package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// images makes the images with deploy/build of the clone, tagged with the version, and checks that they hold the same
// binaries as the archive in out for this machine's architecture. Where no Docker engine answers it says so and makes
// none. run is a folder for what deploy/build leaves behind.
func images(ctx context.Context, src source, run, out string, log io.Writer) error {
	if _, err := output(ctx, src.dir, nil, "docker", "version", "--format", "{{.Server.Version}}"); err != nil {
		fmt.Fprintln(log, "!!! NO IMAGES: no Docker engine answers here. Run deploy/release on a machine that has one.")
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
	archive, err := os.Open(filepath.Join(out, src.name(p)+".tar.gz"))
	if errors.Is(err, os.ErrNotExist) {
		return nil // this platform was not asked for
	} else if err != nil {
		return err
	}
	defer func() { _ = archive.Close() }()
	return sameBinaries(archive, filepath.Join(run, "bin"))
}

// sameBinaries checks that a folder holds every program of an archive, byte for byte.
func sameBinaries(archive io.Reader, folder string) error {
	z, err := gzip.NewReader(archive)
	if err != nil {
		return err
	}
	for t := tar.NewReader(z); ; {
		header, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if header.Mode&0o111 == 0 {
			continue
		}
		released, err := io.ReadAll(t)
		if err != nil {
			return err
		}
		name := filepath.Base(header.Name)
		built, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		if !bytes.Equal(built, released) {
			return fmt.Errorf("the images hold another %s than %s", name, header.Name)
		}
	}
}
