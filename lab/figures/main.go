// Command figures makes the measured numbers and pictures of the pages anew. Without arguments it makes all of them,
// which takes a day on two cores; names make parts:
//
//	go run ./lab/figures                     # everything
//	go run ./lab/figures privacy             # the pictures and numbers of docs/privacy.md; some seconds
//	go run ./lab/figures headline families   # what these experiments measure
//
// The first line of a table in lab/docs/tables names the command that makes it, as a comment above a table of a page
// does:
//
//	Made by: riffle-lab simulate headline
//	<!-- numbers: simulate headline -->
//
// The command's table replaces the one below, with the columns that this one has. Numbers in sentences and in
// lab/papers/*.yaml cannot be replaced: the tables that they come from are written to out/numbers, and the places are
// printed. canaries.json keeps a canary of each experiment as it was when its numbers were made (experiment.Canary),
// and a test fails when it is another. Finished runs are kept in out/simulate.
//
// Costs are measured by riffle-lab bench --write lab/docs.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
)

// root is the repository; the command runs in it.
const root = "."

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, names []string) error {
	all, err := sources(root)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name != privacyName && !slices.ContainsFunc(all, func(s source) bool { return s.name() == name }) {
			return fmt.Errorf("no page has numbers of %q; give some of %v", name, append(sourceNames(all), privacyName))
		}
	}
	made := map[string]bool{} // names whose tables are in pages
	for _, s := range all {
		made[s.name()] = made[s.name()] || s.table
	}
	wanted := func(name string) bool { return len(names) == 0 || slices.Contains(names, name) }
	if wanted(privacyName) {
		if err := privacyPage(os.Stdout); err != nil {
			return err
		}
		if err := keepCanary(ctx, privacyName); err != nil {
			return err
		}
	}
	making := &maker{made: map[string][]byte{}}
	defer making.close()
	for _, name := range sourceNames(all) {
		if !wanted(name) {
			continue
		}
		for _, s := range all {
			// A sentence that mentions an experiment need not have it run where its table is below.
			if s.name() == name && (s.table || !s.sentence || !made[name]) {
				if err := making.renew(ctx, s); err != nil {
					return fmt.Errorf("%s: %w", s, err)
				}
			}
		}
		if err := keepCanary(ctx, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
