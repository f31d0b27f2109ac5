// Package fixedseed makes rapid's property tests draw the same cases in every run. A test package that uses rapid
// imports it for effect, so that a change is judged by the change alone. Looking for new cases is a run of its own:
// RAPID_SEED in the environment, or -rapid.seed, chooses other ones (see "Slow checks" in docs/development.md).
package fixedseed

import (
	"flag"
	"os"

	_ "pgregory.net/rapid" // registers the flag below
)

// Seed is where rapid starts unless the environment or the command line says otherwise.
const Seed = "20261121"

func init() {
	if _, chosen := os.LookupEnv("RAPID_SEED"); chosen {
		return
	}
	if err := flag.Set("rapid.seed", Seed); err != nil {
		panic("fixedseed: " + err.Error()) // rapid has renamed its flag
	}
}
