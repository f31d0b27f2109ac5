package main

import (
	"archive/tar"
	"io"
	"maps"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// layout is an OCI image layout with the further index that docker load reads, as Docker has written it since 25.0.
type layout struct {
	blobs map[string][]byte // by path
	index v1.IndexManifest
	load  []loaded
}

// loaded is an image in manifest.json, the index of docker load.
type loaded struct {
	Config   string
	RepoTags []string
	Layers   []string
}

func newLayout() *layout {
	return &layout{blobs: map[string][]byte{},
		index: v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{}}}
}

// add puts an image under its name, such as riffle/nats:v1.2.3.
func (l *layout) add(name string, m v1.Image) error {
	manifest, err := m.Manifest()
	if err != nil {
		return err
	}
	layers, err := m.Layers()
	if err != nil {
		return err
	}
	entry := loaded{Config: blob(manifest.Config.Digest), RepoTags: []string{name}}
	for i, layer := range layers {
		r, err := layer.Compressed()
		if err != nil {
			return err
		}
		at := blob(manifest.Layers[i].Digest)
		if l.blobs[at], err = io.ReadAll(r); err != nil {
			return err
		}
		entry.Layers = append(entry.Layers, at)
	}
	if l.blobs[entry.Config], err = m.RawConfigFile(); err != nil {
		return err
	}
	digest, err := m.Digest()
	if err != nil {
		return err
	}
	raw, err := m.RawManifest()
	if err != nil {
		return err
	}
	l.blobs[blob(digest)] = raw
	l.load = append(l.load, entry)
	l.index.Manifests = append(l.index.Manifests, v1.Descriptor{MediaType: manifest.MediaType, Size: int64(len(raw)),
		Digest: digest, Annotations: map[string]string{
			"io.containerd.image.name":          "docker.io/" + name, // what containerd calls it
			"org.opencontainers.image.ref.name": name,
		}})
	return nil
}

// write writes the layout as a tar archive.
func (l *layout) write(w io.Writer) error {
	index, err := document(l.index)
	if err != nil {
		return err
	}
	load, err := document(l.load)
	if err != nil {
		return err
	}
	files := maps.Clone(l.blobs)
	files["index.json"], files["manifest.json"] = index, load
	files["oci-layout"] = []byte(`{"imageLayoutVersion":"1.0.0"}` + "\n")
	t := tar.NewWriter(w)
	for _, name := range sorted(files) {
		if err := add(t, name, files[name], 0o644); err != nil {
			return err
		}
	}
	return t.Close()
}

// blob is the path of what has a digest.
func blob(digest v1.Hash) string { return "blobs/" + digest.Algorithm + "/" + digest.Hex }

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
