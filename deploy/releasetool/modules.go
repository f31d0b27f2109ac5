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

// A module is one that binaries are linked from, with the licences under which it may be passed on.
type module struct {
	path, version string
	licence       string // an SPDX expression
	dir           string
	texts         []string // paths below dir of all licences, notices and patent grants, sorted
}

// line is how NOTICE names the module.
func (m module) line() string { return fmt.Sprintf("%s %s: %s\n", m.path, m.version, m.licence) }

// standard is the path by which the standard library of Go goes among the modules.
const standard = "std"

// linkedModules gives the modules other than Riffle's own that these packages of the module in dir are linked from,
// sorted by path, and the standard library of Go. env holds the platform.
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
	modules := map[string]*module{standard: {
		path: standard, version: strings.TrimPrefix(goVersion, "go"), dir: root, texts: []string{"LICENSE", "PATENTS"},
	}}
	for line := range strings.Lines(list) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) != 4 {
			continue // a package of Riffle's own, or of the standard library
		}
		m := modules[fields[0]]
		if m == nil {
			m = &module{path: fields[0], version: fields[1], dir: fields[2]}
			modules[m.path] = m
		}
		if m.texts, err = licenceFiles(m.texts, m.dir, fields[3]); err != nil {
			return nil, err
		}
	}
	var sorted []module
	for _, m := range modules {
		if err := m.classify(); err != nil {
			return nil, err
		}
		sorted = append(sorted, *m)
	}
	slices.SortFunc(sorted, func(a, b module) int { return strings.Compare(a.path, b.path) })
	return sorted, nil
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
		for _, e := range entries {
			name, path := e.Name(), filepath.Join(dir, e.Name())
			var found []string
			switch {
			case e.IsDir() && licenceFolder.MatchString(name):
				found, err = filepath.Glob(filepath.Join(path, "*"))
			case e.IsDir() || filepath.Ext(name) == ".go":
			case licenceName.MatchString(name) || noticeName.MatchString(name):
				found = []string{path}
			}
			if err != nil {
				return nil, err
			}
			for _, path := range found {
				relative, err := filepath.Rel(module, path)
				if err != nil {
					return nil, err
				}
				texts = append(texts, filepath.ToSlash(relative))
			}
		}
		if dir == module {
			slices.Sort(texts)
			return slices.Compact(texts), nil
		}
	}
}

// licences maps SPDX names to words that stand in the text of that licence and in no other.
var licences = []struct{ name, words string }{
	{"Apache-2.0", "Apache License Version 2.0"},
	{"Apache-2.0", "Apache License, Version 2.0"},
	{"BSD", "Redistribution and use in source and binary forms, with or without modification, are permitted"},
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

// classify finds the licence of the module from the texts of its licence files. A text that it does not know is an
// error, so that a person reads it before the module is passed on.
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

// licencesIn gives the SPDX names of the licences whose words stand in a text.
func licencesIn(text string) []string {
	text = strings.Join(strings.Fields(text), " ")
	var found []string
	for _, l := range licences {
		if !strings.Contains(text, l.words) {
			continue
		}
		name := l.name
		if name == "BSD" {
			name = "BSD-2-Clause"
			if strings.Contains(text, "used to endorse or promote products") {
				name = "BSD-3-Clause"
			}
		}
		found = append(found, name)
	}
	return found
}

// licenceTexts gives the texts of all licences and notices, as the licences ask of those who pass binaries on: those of
// the modules, and that of the data in the module at dir.
func licenceTexts(dir string, modules []module) ([]byte, error) {
	var all bytes.Buffer
	section := func(title, path string) error {
		content, err := os.ReadFile(path)
		fmt.Fprintf(&all, "==== %s ====\n\n%s\n\n", title, bytes.TrimSpace(content))
		return err
	}
	all.WriteString("Licences and notices of the data and the modules that the binaries hold. NOTICE has the list.\n\n")
	err := section("UCI Adult data", filepath.Join(dir, "internal", "population", "data", "README.md"))
	for _, m := range modules {
		for _, name := range m.texts {
			title := fmt.Sprintf("%s %s: %s", m.path, m.version, name)
			err = errors.Join(err, section(title, filepath.Join(m.dir, filepath.FromSlash(name))))
		}
	}
	return all.Bytes(), err
}
