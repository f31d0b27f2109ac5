// Command images writes the images of the roles, the broker, the doors and the riffle command as one file, without a
// Docker engine:
//
//	go run ./images --bin FOLDER --tag TAG --out FILE
//
// The file is an OCI image layout, and what "docker load" and "podman load" read, too. It is a function of the binaries
// and the flags: the time in it is that of the commit that Go stamped into the binaries, and their platform is the
// images'.
package main

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// An image holds static binaries, their licences, and a folder that its user owns. No shell, no package manager.
type image struct {
	name       string
	files      map[string]string // paths in the image, and the binaries that are there
	folder     string            // of state or streams; empty: none
	entrypoint []string
	health     []string // empty: none
}

// role is the image of one role.
func role(name string) image {
	return image{name: name, files: map[string]string{"role": name}, folder: "state",
		entrypoint: []string{"/role"}, health: []string{"/role", "healthcheck"}}
}

var images = []image{
	role("randomizer"), role("shuffler"), role("analyzer"), role("ingress"), role("issuer"),
	// The broker: nats-server in the version of go.mod. Its health check also ends a broker that needs a restart.
	{name: "nats", files: map[string]string{"nats-server": "nats-server", "healthcheck": "healthcheck"}, folder: "data",
		entrypoint: []string{"/nats-server", "--config", "/etc/nats/nats.conf"},
		health:     []string{"/healthcheck", "--restart"}},
	// A door, which forwards ports of this machine to a role: no key and no state.
	{name: "door", files: map[string]string{"door": "door"}, entrypoint: []string{"/door"},
		health: []string{"/door", "healthcheck"}},
	// The umbrella command, for jobs such as provisioning.
	{name: "riffle", files: map[string]string{"riffle": "riffle"}, entrypoint: []string{"/riffle"}},
}

// texts are the licences in an image, of Riffle and of what its binaries hold of others.
var texts = []string{"LICENSE", "NOTICE", "third-party-licences.txt"}

// How a health check is run.
const (
	healthEvery   = 5 * time.Second
	healthWithin  = 5 * time.Second
	healthStart   = time.Minute
	healthRetries = 3
)

func main() {
	bin := flag.String("bin", "", "folder of the binaries")
	tag := flag.String("tag", "local", "tag of the images")
	uid := flag.Int("uid", 65532, "user in the containers, above 0, and its group")
	licences := flag.String("licences", "", "folder of the licences that each image holds; empty: none")
	out := flag.String("out", "", "file to write; -: standard output")
	flag.Parse()
	if err := write(*bin, *tag, *uid, *licences, *out); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

// write makes all images and writes them to a file.
func write(bin, tag string, uid int, licences, out string) (err error) {
	if bin == "" || out == "" {
		return errors.New("--bin and --out are needed")
	}
	if uid <= 0 {
		return fmt.Errorf("--uid %d: the images' user must not be root: choose a number above 0", uid)
	}
	l := newLayout()
	for _, m := range images {
		made, size, err := m.make(bin, uid, licences)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		name := "riffle/" + m.name + ":" + tag
		if err := l.add(name, made); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		fmt.Fprintf(os.Stderr, "%-32s %5.1f MB\n", name, float64(size)/1e6)
	}
	w := os.Stdout
	if out != "-" {
		if w, err = os.Create(out); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, w.Close()) }()
	}
	return l.write(w)
}

// make builds the image, and says how many bytes its files have.
func (m image) make(bin string, uid int, licences string) (made v1.Image, size int64, err error) {
	config := v1.ConfigFile{OS: "linux", RootFS: v1.RootFS{Type: "layers"}, Config: v1.Config{
		User: strconv.Itoa(uid) + ":" + strconv.Itoa(uid), Entrypoint: m.entrypoint, WorkingDir: "/",
		Labels: map[string]string{
			"org.opencontainers.image.source":   "https://github.com/riffle-dp/riffle",
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}}
	if len(m.health) > 0 {
		config.Config.Healthcheck = &v1.HealthConfig{Test: append([]string{"CMD"}, m.health...), Interval: healthEvery,
			Timeout: healthWithin, StartPeriod: healthStart, Retries: healthRetries}
	}
	var files bytes.Buffer
	t := tar.NewWriter(&files)
	for _, at := range sorted(m.files) {
		from := filepath.Join(bin, m.files[at])
		if err := describe(from, &config); err != nil {
			return nil, 0, err
		}
		n, err := pack(t, at, from, 0o755)
		if err != nil {
			return nil, 0, err
		}
		size += n
	}
	if licences != "" {
		for _, name := range texts {
			n, err := pack(t, name, filepath.Join(licences, name), 0o644)
			if err != nil {
				return nil, 0, err
			}
			size += n
		}
	}
	if m.folder != "" {
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: m.folder + "/", Mode: 0o755, Uid: uid, Gid: uid,
			Format: tar.FormatUSTAR}); err != nil {
			return nil, 0, err
		}
	}
	if err := t.Close(); err != nil {
		return nil, 0, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, 0, err
	}
	base, err := mutate.ConfigFile(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1),
		types.OCIConfigJSON), &config)
	if err != nil {
		return nil, 0, err
	}
	made, err = mutate.Append(base, mutate.Addendum{Layer: layer,
		History: v1.History{Created: config.Created, CreatedBy: "github.com/riffle-dp/riffle/deploy/packages/images"}})
	return made, size, err
}

// describe takes an image's platform, version, commit and time from what Go stamped into a binary of it.
func describe(binary string, config *v1.ConfigFile) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if settings["GOOS"] != "linux" || settings["CGO_ENABLED"] != "0" {
		return fmt.Errorf("%s is for %s with cgo %s: an image needs a static binary for linux", binary, settings["GOOS"],
			settings["CGO_ENABLED"])
	}
	if config.Architecture != "" && config.Architecture != settings["GOARCH"] {
		return fmt.Errorf("%s is for %s, and what is beside it for %s", binary, settings["GOARCH"], config.Architecture)
	}
	config.Architecture = settings["GOARCH"]
	config.Config.Labels["org.opencontainers.image.version"] = info.Main.Version
	if at := settings["vcs.time"]; at != "" {
		created, err := time.Parse(time.RFC3339, at)
		if err != nil {
			return fmt.Errorf("%s: %w", binary, err)
		}
		config.Created = v1.Time{Time: created}
		config.Config.Labels["org.opencontainers.image.revision"] = settings["vcs.revision"]
	}
	return nil
}

// pack adds a file to an archive as root's, without a time, and says how many bytes it has.
func pack(t *tar.Writer, name, from string, mode int64) (int64, error) {
	b, err := os.ReadFile(from)
	if err != nil {
		return 0, err
	}
	return int64(len(b)), errors.Join(add(t, name, b, mode))
}

func add(t *tar.Writer, name string, b []byte, mode int64) error {
	h := tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(b)), Format: tar.FormatUSTAR}
	if err := t.WriteHeader(&h); err != nil {
		return err
	}
	_, err := t.Write(b)
	return err
}

// document is v as JSON with a line end.
func document(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	return append(b, '\n'), err
}
