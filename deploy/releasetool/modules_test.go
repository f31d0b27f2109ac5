package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestNoticeNamesEveryLinkedModule(t *testing.T) {
	old, now, err := notice(t.Context(), filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if old != now {
		t.Errorf("NOTICE does not name what the binaries are linked from: run deploy/release --notice and commit it. "+
			"It should end:\n%s", now[strings.Index(now, noticeMark):])
	}
	if n := strings.Count(now, "\n"); n < 40 {
		t.Errorf("NOTICE has %d lines only", n)
	}
}

func TestLicenceIsFoundInItsText(t *testing.T) {
	const bsd = "Redistribution and use in source and binary forms, with or without\nmodification, are permitted"
	const mit = "Permission is hereby granted, free of charge, to any person obtaining a copy\nof this software"
	for _, c := range []struct {
		text string
		want []string
	}{
		{"Apache License\n      Version 2.0, January 2004", []string{"Apache-2.0"}},
		{bsd, []string{"BSD-2-Clause"}},
		{bsd + "\nmay be used to endorse or promote\nproducts", []string{"BSD-3-Clause"}},
		{mit, []string{"MIT"}},
		{"All rights reserved.", nil},
	} {
		if got := licencesIn(c.text); !slices.Equal(got, c.want) {
			t.Errorf("%q is taken for %q, want %q", c.text, got, c.want)
		}
	}
}

func TestLicencesOfAllFoldersAboveAPackageAreFound(t *testing.T) {
	const mit = "Permission is hereby granted, free of charge, to any person obtaining a copy of this software"
	dir := folder(t, map[string]string{
		"LICENSE": mit, "NOTICE": "Copyright", "licenses/more.txt": "words", "license.go": "package p",
		"inner/deep/COPYING": "SIL OPEN FONT LICENSE Version 1.1", "elsewhere/LICENSE": "not linked",
	})
	texts, err := licenceFiles(nil, dir, filepath.Join(dir, "inner", "deep"))
	if err != nil {
		t.Fatal(err)
	}
	texts, err = licenceFiles(texts, dir, dir) // a second package of the module
	want := []string{"LICENSE", "NOTICE", "inner/deep/COPYING", "licenses/more.txt"}
	if err != nil || !slices.Equal(texts, want) {
		t.Fatalf("found %q (%v), want %q", texts, err, want)
	}
	m := module{path: "example.org/m", version: "v1.0.0", dir: dir, texts: texts}
	if err := m.classify(); err != nil || m.line() != "example.org/m v1.0.0: MIT AND OFL-1.1\n" {
		t.Errorf("the module's line is %q (%v)", m.line(), err)
	}
}

func TestModuleWithoutAKnownLicenceIsRefused(t *testing.T) {
	dir := folder(t, map[string]string{"LICENSE": "You may look at this, and no more."})
	m := module{path: "example.org/m", version: "v1.0.0", dir: dir, texts: []string{"LICENSE"}}
	if err := m.classify(); err == nil || !strings.Contains(err.Error(), "example.org/m v1.0.0") {
		t.Errorf("it was taken for %q (%v)", m.licence, err)
	}
}

func TestTextsOfAllLicencesAreInTheArchive(t *testing.T) {
	dir := folder(t, map[string]string{"internal/population/data/README.md": "CC BY 4.0"})
	m := folder(t, map[string]string{"LICENSE": "words of the licence", "sub/NOTICE": "words of the notice"})
	linked := module{path: "example.org/m", version: "v1.0.0", dir: m, texts: []string{"LICENSE", "sub/NOTICE"}}
	texts, err := licenceTexts(dir, []module{linked})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"CC BY 4.0", "==== example.org/m v1.0.0: LICENSE ====\n\nwords of the licence\n", "words of the notice",
	} {
		if !strings.Contains(string(texts), want) {
			t.Errorf("the texts lack %q", want)
		}
	}
	if err := os.Remove(filepath.Join(m, "LICENSE")); err != nil {
		t.Fatal(err)
	}
	if _, err := licenceTexts(dir, []module{linked}); err == nil {
		t.Error("a missing licence is no error")
	}
}
