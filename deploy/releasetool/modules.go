package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A module is one that binaries are linked from, with its licences.
type module struct {
	path, version string
	licence       string // an SPDX expression
	dir           string
	texts         []string // paths below dir of all licences, notices and patent grants, sorted
}

// line is how NOTICE names the module.
func (m module) line() string { return fmt.Sprintf("%s %s: %s\n", m.path, m.version, m.licence) }

// standard is the path of the standard library of Go among the modules.
const standard = "std"

// shipped are the programs that Riffle passes on: those of the archives, and those that only the images hold.
var shipped = []string{"./cmd/...", "github.com/nats-io/nats-server/v2"}

// linkedModules gives the modules other than Riffle's own that these packages of the module in dir are linked from,
// and the standard library of Go, sorted by path. env holds the platform.
func linkedModules(ctx context.Context, dir string, env, packages []string) ([]module, error) {
	const format = "{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Version}}\t{{.Dir}}\t{{$.Dir}}{{end}}{{end}}"
	list, err := output(ctx, dir, env, "go", append([]string{"list", "-deps", "-f", format}, packages...)...)
	if err != nil {
		return nil, err
	}
	root, err := output(ctx, dir, env, "go", "env", "GOROOT", "GOVERSION")
	if err != nil {
		return nil, err
	}
	root, goVersion, _ := strings.Cut(root, "\n")
	modules := []module{{
		path: standard, version: strings.TrimPrefix(goVersion, "go"), dir: root, texts: []string{"LICENSE", "PATENTS"},
	}}
	for line := range strings.Lines(list) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) != 4 {
			continue // a package of Riffle's own, or of the standard library
		}
		i := slices.IndexFunc(modules, func(m module) bool { return m.path == fields[0] })
		if i < 0 {
			i = len(modules)
			modules = append(modules, module{path: fields[0], version: fields[1], dir: fields[2]})
		}
		m := &modules[i]
		if m.texts, err = licenceFiles(m.texts, m.dir, fields[3]); err != nil {
			return nil, err
		}
	}
	for i := range modules {
		if err := modules[i].classify(); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(modules, func(a, b module) int { return strings.Compare(a.path, b.path) })
	return modules, nil
}

var (
	licenceName   = regexp.MustCompile(`(?i)^(un)?licen[sc]e|^copying`)
	noticeName    = regexp.MustCompile(`(?i)^notice|^patents$`)
	licenceFolder = regexp.MustCompile(`(?i)^licen[sc]es$|^third_party_licen[sc]es$`)
)

// licenceFiles adds to texts the licences and notices of a package: those in its folder and in the folders above it, up
// to that of its module, and those in a folder of licences beside them.
func licenceFiles(texts []string, module, pkg string) ([]string, error) {
	for dir := pkg; ; dir = filepath.Dir(dir) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		inModule, err := filepath.Rel(module, dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			name := e.Name()
			switch {
			case e.IsDir() && licenceFolder.MatchString(name):
				below, err := os.ReadDir(filepath.Join(dir, name))
				if err != nil {
					return nil, err
				}
				for _, b := range below {
					texts = append(texts, filepath.ToSlash(filepath.Join(inModule, name, b.Name())))
				}
			case e.IsDir() || filepath.Ext(name) == ".go":
			case licenceName.MatchString(name) || noticeName.MatchString(name):
				texts = append(texts, filepath.ToSlash(filepath.Join(inModule, name)))
			}
		}
		if dir == module {
			slices.Sort(texts)
			return slices.Compact(texts), nil
		}
	}
}

// bsd is the licence whose text is also the beginning of BSD-3-Clause.
const bsd = "BSD-2-Clause"

// licences are SPDX names, with words that are in the text of that licence and in no other.
var licences = []struct{ name, words string }{
	{"Apache-2.0", "Apache License Version 2.0"},
	{"Apache-2.0", "Apache License, Version 2.0"},
	{bsd, "Redistribution and use in source and binary forms, with or without modification, are permitted"},
	{"CC-BY-4.0", "Creative Commons Attribution 4.0 International"},
	{"CC0-1.0", "CC0 1.0 Universal"},
	{"FTL OR GPL-2.0-or-later", "exactly one of the following two licenses: * The FreeType License"},
	{"ISC", "Permission to use, copy, modify, and/or distribute this software for any purpose"},
	{"ISC", "Permission to use, copy, modify, and distribute this software for any purpose"},
	{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy of this software"},
	{"MPL-2.0", "Mozilla Public License Version 2.0"},
	{"OFL-1.1", "SIL OPEN FONT LICENSE Version 1.1"},
	{"Unlicense", "This is free and unencumbered software released into the public domain"},
}

// classify finds the licence of the module in the texts of its licence files. A module without a text that it knows is
// an error, so that a person reads its licence before the module is passed on.
func (m *module) classify() error {
	var found []string
	for _, name := range m.texts {
		if !licenceName.MatchString(filepath.Base(name)) || licenceFolder.MatchString(filepath.Dir(name)) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(m.dir, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		found = append(found, licencesIn(string(content))...)
	}
	if len(found) == 0 {
		return fmt.Errorf("%s %s: no licence that this command knows in %q", m.path, m.version, m.texts)
	}
	slices.Sort(found)
	m.licence = strings.Join(slices.Compact(found), " AND ")
	return nil
}

// licencesIn gives the SPDX names of the licences whose words are in a text.
func licencesIn(text string) []string {
	text = strings.Join(strings.Fields(text), " ")
	var found []string
	for _, l := range licences {
		if !strings.Contains(text, l.words) {
			continue
		}
		if l.name == bsd && strings.Contains(text, "used to endorse or promote products") {
			l.name = "BSD-3-Clause"
		}
		found = append(found, l.name)
	}
	return found
}

// licenceTexts gives the texts of all licences and notices, which most licences require to accompany a binary: those of
// the modules, and that of the data in the module at dir.
func licenceTexts(dir string, modules []module) ([]byte, error) {
	var all bytes.Buffer
	section := func(title, path string) error {
		content, err := os.ReadFile(path)
		fmt.Fprintf(&all, "==== %s ====\n\n%s\n\n", title, bytes.TrimSpace(content))
		return err
	}
	all.WriteString("Licences and notices of the data and the modules that the binaries hold. NOTICE has the list.\n\n")
	err := section("UCI Adult data", filepath.Join(dir, "internal", "lab", "population", "data", "README.md"))
	for _, m := range modules {
		for _, name := range m.texts {
			title := fmt.Sprintf("%s %s: %s", m.path, m.version, name)
			err = errors.Join(err, section(title, filepath.Join(m.dir, filepath.FromSlash(name))))
		}
	}
	return all.Bytes(), err
}

// noticeMark is the line of NOTICE after which the generated list stands, to the end of the file.
const noticeMark = "Modules\n-------\n"

// notice gives the text of NOTICE of the module at root, as it is and as it must be: what stands before noticeMark, and
// the list of the modules that are linked into any shipped program on any platform.
func notice(ctx context.Context, root string) (old, now string, err error) {
	content, err := os.ReadFile(filepath.Join(root, "NOTICE"))
	if err != nil {
		return "", "", err
	}
	head, _, found := strings.Cut(string(content), noticeMark)
	if !found {
		return "", "", errors.New("NOTICE has no section Modules")
	}
	var lines []string
	for _, p := range allPlatforms {
		modules, err := linkedModules(ctx, root, p.environment(""), shipped)
		if err != nil {
			return "", "", err
		}
		for _, m := range modules {
			if m.path != standard { // its version is the toolchain's, and differs from machine to machine
				lines = append(lines, m.line())
			}
		}
	}
	slices.Sort(lines)
	text := head + noticeMark + "\nThe standard library of Go: BSD-3-Clause\n" + strings.Join(slices.Compact(lines), "")
	return string(content), text, nil
}
