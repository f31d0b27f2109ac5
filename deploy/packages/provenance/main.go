// Command provenance writes the statement of where the files of a release come from, as in-toto and SLSA lay it down:
//
//	go run ./provenance --version v1.2.3 --commit HASH --platforms LIST --binaries LIST --tool go=go1.26.1 \
//	    --modules CLONE FOLDER >FILE
//
// It names no time and no machine, so that whoever builds the same commit again can write the same bytes. It is not
// signed: by itself it is a claim of whoever hands it on, and a second build is what checks it.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Where the types of what is written are described.
const (
	statementType = "https://in-toto.io/Statement/v1"
	predicateType = "https://slsa.dev/provenance/v1"
	repository    = "https://github.com/riffle-dp/riffle"
	buildType     = repository + "/blob/main/docs/development.md#releases"
	builder       = repository + "/blob/main/deploy/release" // the program; who ran it is not said, for nobody vouches
)

type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     predicate  `json:"predicate"`
}

type predicate struct {
	BuildDefinition struct {
		BuildType            string            `json:"buildType"`
		ExternalParameters   map[string]string `json:"externalParameters"`
		ResolvedDependencies []resource        `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID      string            `json:"id"`
			Version map[string]string `json:"version"`
		} `json:"builder"`
	} `json:"runDetails"`
}

type resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

// commitForm is the form of a commit's hash.
var commitForm = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

func main() {
	version := flag.String("version", "", "version of the release")
	commit := flag.String("commit", "", "hash of the commit that was built")
	platforms := flag.String("platforms", "", "platforms that were built")
	binaries := flag.String("binaries", "", "binaries that were built")
	modules := flag.String("modules", "", "folder of a clone at the commit: its go.sum files name what was linked")
	tools := map[string]string{}
	flag.Func("tool", "name=version of a program on which the files depend, repeated; go is needed", func(text string) error {
		name, said, ok := strings.Cut(text, "=")
		if !ok || name == "" || said == "" {
			return errors.New("must be name=version")
		}
		tools[name] = said
		return nil
	})
	flag.Parse()
	parameters := map[string]string{"version": *version, "platforms": *platforms, "binaries": *binaries}
	if err := write(os.Stdout, parameters, *commit, tools, *modules, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "provenance:", err)
		os.Exit(1)
	}
}

// write writes the statement about all files of a folder.
func write(w io.Writer, parameters map[string]string, commit string, tools map[string]string, modules string,
	folders []string,
) error {
	if parameters["version"] == "" || tools["go"] == "" || modules == "" || len(folders) != 1 {
		return errors.New("--version, --commit, --tool go=VERSION, --modules and the folder of the release are needed")
	}
	if !commitForm.MatchString(commit) {
		return fmt.Errorf("--commit %q is no hash of a commit", commit)
	}
	s := statement{Type: statementType, PredicateType: predicateType}
	var err error
	if s.Subject, err = files(folders[0], "*"); err != nil {
		return err
	}
	if len(s.Subject) == 0 {
		return fmt.Errorf("%s holds no file", folders[0])
	}
	b := &s.Predicate.BuildDefinition
	b.BuildType = buildType
	b.ExternalParameters = parameters
	b.ResolvedDependencies = []resource{{URI: "git+" + repository + "@" + commit,
		Digest: map[string]string{"gitCommit": commit}}}
	for _, sums := range []string{"go.sum", "deploy/packages/go.sum", "clients/web/go.sum"} {
		found, err := files(filepath.Join(modules, filepath.Dir(sums)), "go.sum")
		if err != nil {
			return err
		}
		if len(found) != 1 {
			return fmt.Errorf("%s has no %s", modules, sums)
		}
		found[0].Name = sums
		b.ResolvedDependencies = append(b.ResolvedDependencies, found...)
	}
	s.Predicate.RunDetails.Builder.ID = builder
	s.Predicate.RunDetails.Builder.Version = tools
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(s)
}

// files are the names and digests of a folder's files of a pattern.
func files(folder, pattern string) (all []resource, err error) {
	paths, err := filepath.Glob(filepath.Join(folder, pattern))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		sum := sha256.New()
		_, err = io.Copy(sum, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		all = append(all, resource{Name: filepath.Base(path),
			Digest: map[string]string{"sha256": hex.EncodeToString(sum.Sum(nil))}})
	}
	return all, nil
}
