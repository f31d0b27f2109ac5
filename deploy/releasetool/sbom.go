package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// The part of CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json/) that an SBOM of a Go binary needs.
type (
	bomDocument struct {
		Format       string          `json:"bomFormat"`
		SpecVersion  string          `json:"specVersion"`
		SerialNumber string          `json:"serialNumber"`
		Version      int             `json:"version"`
		Metadata     bomMetadata     `json:"metadata"`
		Components   []bomComponent  `json:"components"`
		Dependencies []bomDependency `json:"dependencies"`
	}
	bomMetadata struct {
		Timestamp string       `json:"timestamp"`
		Component bomComponent `json:"component"`
	}
	bomComponent struct {
		Ref        string        `json:"bom-ref"` // the same as PURL
		Type       string        `json:"type"`
		Name       string        `json:"name"`
		Version    string        `json:"version"`
		Hashes     []bomHash     `json:"hashes,omitempty"`
		Licences   []bomLicence  `json:"licenses"`
		PURL       string        `json:"purl"`
		Properties []bomProperty `json:"properties,omitempty"`
	}
	bomHash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"` // hexadecimal
	}
	bomLicence struct {
		Expression string `json:"expression"`
	}
	bomProperty struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	bomDependency struct {
		Ref       string   `json:"ref"`
		DependsOn []string `json:"dependsOn,omitempty"`
	}
)

// sbom is the bill of materials of a binary: the modules that the Go tool stamped into it (info), as go version -m
// shows them, and their licences. It is a function of the binary and of the time of the commit.
func sbom(
	info *debug.BuildInfo, content []byte, name string, src source, p platform, modules []module,
) ([]byte, error) {
	sum := sha256.Sum256(content)
	id := purl(info.Main.Path, info.Main.Version) + fmt.Sprintf("?goarch=%s&goos=%s#cmd/%s", p.arch, p.os, name)
	binary := bomComponent{
		Ref: id, PURL: id, Type: "application", Name: name, Version: info.Main.Version,
		Hashes: sha256Hash(sum[:]), Licences: []bomLicence{{"Apache-2.0"}},
	}
	for _, s := range info.Settings {
		binary.Properties = append(binary.Properties, bomProperty{"riffle:build:" + s.Key, s.Value})
	}
	document := bomDocument{
		Format: "CycloneDX", SpecVersion: "1.6", Version: 1, SerialNumber: serialNumber(sum),
		Metadata:     bomMetadata{Timestamp: src.time.UTC().Format(time.RFC3339), Component: binary},
		Dependencies: []bomDependency{{Ref: id}},
	}
	// The build information does not list the standard library, which is part of the binary as well.
	linked := map[string]*debug.Module{standard: {Version: strings.TrimPrefix(info.GoVersion, "go")}}
	for _, d := range info.Deps {
		linked[d.Path] = d
	}
	for _, m := range modules {
		d := linked[m.path]
		if d == nil || d.Version != m.version {
			continue // linked into another binary of the release
		}
		delete(linked, m.path)
		id := purl(m.path, m.version)
		c := bomComponent{
			Ref: id, PURL: id, Type: "library", Name: m.path, Version: m.version, Licences: []bomLicence{{m.licence}},
		}
		if text, ok := strings.CutPrefix(d.Sum, "h1:"); ok { // of the module's files, as in go.sum
			hash, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return nil, fmt.Errorf("hash of %s: %w", m.path, err)
			}
			c.Hashes = sha256Hash(hash)
		}
		document.Components = append(document.Components, c)
		document.Dependencies[0].DependsOn = append(document.Dependencies[0].DependsOn, id)
		document.Dependencies = append(document.Dependencies, bomDependency{Ref: id})
	}
	if len(linked) > 0 {
		return nil, fmt.Errorf("the licences of these modules are not known: %v", slices.Sorted(maps.Keys(linked)))
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(document)
	return text.Bytes(), err
}

func sha256Hash(sum []byte) []bomHash { return []bomHash{{"SHA-256", fmt.Sprintf("%x", sum)}} }

// purl is the package URL of a Go module (https://github.com/package-url/purl-spec). Of the
// characters that Go allows in paths and versions, only the plus sign needs an escape.
func purl(path, version string) string {
	return "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
}

// serialNumber is a UUID (RFC 9562, version 8) made from the hash of the binary and not at random, because two builds of
// the same binary must have the same SBOM.
func serialNumber(sum [sha256.Size]byte) string {
	u := sum[:16]
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
