package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// binaries is a folder with a small program under every name that an image asks for.
func binaries(t *testing.T, system, arch string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example.org/small\n\ngo 1.26\n",
		"main.go": "package main\n\nfunc main() {}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", "small", ".")
	build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+system, "GOARCH="+arch)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, m := range images {
		for _, name := range m.files {
			if err := errors.Join(os.RemoveAll(filepath.Join(dir, name)),
				os.Link(filepath.Join(dir, "small"), filepath.Join(dir, name))); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// files are what an archive holds.
func files(t *testing.T, archive io.Reader) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.IsZero() && h.ModTime.Unix() != 0 {
			t.Errorf("%s has the time %v", h.Name, h.ModTime)
		}
		if all[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func read[T any](t *testing.T, b []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	return v
}

// TestImages: the same bytes twice; every blob is what its name says; both indices name all images and what is there;
// each image holds its licences.
func TestImages(t *testing.T) {
	bin, dir := binaries(t, "linux", "arm64"), t.TempDir()
	var twice [2][]byte
	for _, name := range texts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("the text of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range twice {
		out := filepath.Join(dir, "images.tar")
		if err := write(bin, "v1.2.3", 65532, dir, out); err != nil {
			t.Fatal(err)
		}
		var err error
		if twice[i], err = os.ReadFile(out); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(twice[0], twice[1]) {
		t.Error("the second time the bytes differ")
	}
	all := files(t, bytes.NewReader(twice[0]))
	for name, b := range all {
		if digest, ok := strings.CutPrefix(name, "blobs/sha256/"); ok {
			if sum := sha256.Sum256(b); digest != hex.EncodeToString(sum[:]) {
				t.Errorf("%s has the digest %x", name, sum)
			}
		}
	}
	index := read[v1.IndexManifest](t, all["index.json"])
	load := read[[]loaded](t, all["manifest.json"])
	if len(index.Manifests) != len(images) || len(load) != len(images) {
		t.Fatalf("%d and %d images, not %d", len(index.Manifests), len(load), len(images))
	}
	for i, d := range index.Manifests {
		name := "riffle/" + images[i].name + ":v1.2.3"
		m := read[v1.Manifest](t, all[blob(d.Digest)])
		config := read[v1.ConfigFile](t, all[blob(m.Config.Digest)])
		if d.Annotations["org.opencontainers.image.ref.name"] != name || load[i].RepoTags[0] != name ||
			load[i].Config != blob(m.Config.Digest) || len(m.Layers) != 1 || load[i].Layers[0] != blob(m.Layers[0].Digest) {
			t.Errorf("%s: the two indices differ: %+v, %+v", name, d, load[i])
		}
		if config.Architecture != "arm64" || config.Config.User != "65532:65532" ||
			len(config.Config.Entrypoint) == 0 || len(config.Config.Env) > 0 {
			t.Errorf("%s: %+v", name, config)
		}
		layer, err := gzip.NewReader(bytes.NewReader(all[blob(m.Layers[0].Digest)]))
		if err != nil {
			t.Fatal(err)
		}
		held := files(t, layer)
		for _, text := range texts {
			if string(held[text]) != "the text of "+text {
				t.Errorf("%s has %q as %s", name, held[text], text)
			}
		}
	}
}

// TestImagesRefuse: nothing is made of what no image may be.
func TestImagesRefuse(t *testing.T) {
	linux, mac := binaries(t, "linux", "amd64"), binaries(t, "darwin", "arm64")
	mixed := binaries(t, "linux", "arm64")
	if err := errors.Join(os.Remove(filepath.Join(mixed, "healthcheck")),
		os.Link(filepath.Join(linux, "small"), filepath.Join(mixed, "healthcheck"))); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "images.tar")
	for name, c := range map[string]struct {
		bin  string
		uid  int
		want string
	}{
		"root":             {linux, 0, "must not be root"},
		"another system":   {mac, 65532, "for darwin"},
		"two processors":   {mixed, 65532, "what is beside it"},
		"a missing binary": {t.TempDir(), 65532, "no such file"},
		"no folder":        {"", 65532, "needed"},
	} {
		err := write(c.bin, "x", c.uid, "", out)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%s: a file was written", name)
		}
	}
}
