package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// noticeMark is the line of NOTICE after which the generated list stands, to the end of the file.
const noticeMark = "Modules\n-------\n"

// shipped are the programs that Riffle passes on: those of the archives, and those that only the images hold.
var shipped = []string{"./cmd/...", "github.com/nats-io/nats-server/v2"}

// notice gives the text of NOTICE for the module at root: what stands before noticeMark, and the list of the modules
// that are linked into any shipped program on any platform.
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

// writeNotice brings NOTICE up to date.
func writeNotice(ctx context.Context, root string) error {
	old, now, err := notice(ctx, root)
	if err != nil || old == now {
		return err
	}
	return os.WriteFile(filepath.Join(root, "NOTICE"), []byte(now), 0o644)
}
