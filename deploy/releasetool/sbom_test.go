package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
)

// released is what the Go tool stamps into a binary of a release, and the modules of all binaries.
func released() (*debug.BuildInfo, source, []module) {
	hash := sha256.Sum256([]byte("files of the module"))
	info := &debug.BuildInfo{
		GoVersion: "go1.26.8", Main: debug.Module{Path: "github.com/riffle-dp/riffle", Version: "v0.1.0"},
		Deps: []*debug.Module{{Path: "example.org/~m", Version: "v2.0.0+incompatible",
			Sum: "h1:" + base64.StdEncoding.EncodeToString(hash[:])}},
		Settings: []debug.BuildSetting{
			{Key: "-trimpath", Value: "true"}, {Key: "CGO_ENABLED", Value: "0"}, {Key: "GOARCH", Value: "arm64"},
			{Key: "GOOS", Value: "darwin"}, {Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "false"},
		},
	}
	modules := []module{
		{path: "example.org/~m", version: "v2.0.0+incompatible", licence: "MIT"},
		{path: "example.org/other", version: "v1.0.0", licence: "ISC"}, // linked into another binary
		{path: standard, version: "1.26.8", licence: "BSD-3-Clause"},
	}
	return info, source{dir: "/where/it/was/built", version: "v0.1.0", commit: "abc", time: commitTime}, modules
}

var darwin = platform{"darwin", "arm64"}

func TestSBOMListsWhatTheBinaryIsLinkedFrom(t *testing.T) {
	info, src, modules := released()
	content := []byte("the binary")
	text, err := sbom(info, content, "shuffler", src, darwin, modules)
	if err != nil {
		t.Fatal(err)
	}
	var bom bomDocument
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&bom); err != nil {
		t.Fatal(err)
	}
	main := bom.Metadata.Component
	const url = "pkg:golang/github.com/riffle-dp/riffle@v0.1.0?goarch=arm64&goos=darwin#cmd/shuffler"
	sum := fmt.Sprintf("%x", sha256.Sum256(content))
	if main.PURL != url || main.Name != "shuffler" || main.Version != "v0.1.0" || main.Hashes[0].Content != sum ||
		main.Licences[0].Expression != "Apache-2.0" {
		t.Errorf("the binary is described as %+v", main)
	}
	if bom.Format != "CycloneDX" || bom.SpecVersion != "1.6" || bom.Metadata.Timestamp != "2026-11-22T00:10:07Z" {
		t.Errorf("the document is %s %s of %s", bom.Format, bom.SpecVersion, bom.Metadata.Timestamp)
	}
	var parts []string
	for _, c := range bom.Components {
		parts = append(parts, c.PURL+" "+c.Licences[0].Expression)
	}
	want := "pkg:golang/example.org/~m@v2.0.0%2Bincompatible MIT, pkg:golang/std@1.26.8 BSD-3-Clause"
	if got := strings.Join(parts, ", "); got != want {
		t.Errorf("the components are %s, want %s", got, want)
	}
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte("files of the module")))
	if got := bom.Components[0].Hashes; len(got) != 1 || got[0] != (bomHash{"SHA-256", hash}) {
		t.Errorf("the hash of the module is %v, want %s", got, hash)
	}
	refs := map[string]bool{main.Ref: true}
	for _, c := range bom.Components {
		refs[c.Ref] = true
	}
	for _, dependency := range bom.Dependencies {
		for _, ref := range append(dependency.DependsOn, dependency.Ref) {
			if !refs[ref] {
				t.Errorf("a dependency names %s, which is no component", ref)
			}
		}
	}
	if len(bom.Dependencies) != 3 || len(bom.Dependencies[0].DependsOn) != 2 {
		t.Errorf("the dependencies are %+v", bom.Dependencies)
	}
	uuid := regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	if !uuid.MatchString(bom.SerialNumber) {
		t.Errorf("the serial number is %s", bom.SerialNumber)
	}
}

func TestSBOMDependsOnTheBinaryOnly(t *testing.T) {
	info, src, modules := released()
	first, err := sbom(info, []byte("the binary"), "shuffler", src, darwin, modules)
	if err != nil {
		t.Fatal(err)
	}
	src.dir = "/another/folder"
	again, err := sbom(info, []byte("the binary"), "shuffler", src, darwin, modules)
	if err != nil || !bytes.Equal(first, again) {
		t.Errorf("the same binary has another SBOM: %v\n%s", err, again)
	}
	other, err := sbom(info, []byte("changed"), "shuffler", src, darwin, modules)
	if err != nil || bytes.Equal(first, other) {
		t.Errorf("another binary has the same SBOM: %v", err)
	}
}

func TestSBOMNeedsTheLicenceOfEveryModule(t *testing.T) {
	info, src, modules := released()
	_, err := sbom(info, nil, "shuffler", src, darwin, modules[1:])
	if err == nil || !strings.Contains(err.Error(), "example.org/~m") {
		t.Errorf("a module without a licence was passed over: %v", err)
	}
}

func TestBinaryThatIsNotTheReleasesIsRefused(t *testing.T) {
	info, src, _ := released()
	if err := verify(info, []byte("the binary"), src, darwin); err != nil {
		t.Fatal(err)
	}
	if err := verify(info, []byte("x /where/it/was/built/cmd x"), src, darwin); err == nil {
		t.Error("a binary with the path of its folder was accepted")
	}
	if err := verify(info, []byte("the binary"), src, platform{"darwin", "amd64"}); err == nil {
		t.Error("a binary for another platform was accepted")
	}
	for _, s := range []debug.BuildSetting{
		{Key: "CGO_ENABLED", Value: "1"}, {Key: "-trimpath", Value: ""}, {Key: "vcs.modified", Value: "true"},
		{Key: "vcs.revision", Value: "abd"},
	} {
		info, _, _ := released()
		info.Settings = append(info.Settings, s)
		if err := verify(info, []byte("the binary"), src, darwin); err == nil || !strings.Contains(err.Error(), s.Key) {
			t.Errorf("%s = %q was accepted: %v", s.Key, s.Value, err)
		}
	}
	src.version = "v0.2.0"
	if err := verify(info, []byte("the binary"), src, darwin); err == nil {
		t.Error("a binary of another version was accepted")
	}
}

func TestModuleThatNoticeLacksIsRefused(t *testing.T) {
	info, _, modules := released()
	notice := []byte("Modules\n" + modules[0].line())
	if err := named(info, notice, modules); err != nil {
		t.Error(err)
	}
	if err := named(info, bytes.ReplaceAll(notice, []byte("v2.0.0"), []byte("v1.9.0")), modules); err == nil {
		t.Error("a NOTICE with another version was accepted")
	}
}
