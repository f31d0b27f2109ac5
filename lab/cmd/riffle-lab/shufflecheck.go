package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/command"
	"github.com/riffle-dp/riffle/internal/config"
	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/lab/inmemory"
	"github.com/riffle-dp/riffle/lab/uniform"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/strict"
)

// exitNotUniform is the exit code of riffle-lab shufflecheck where orders are rejected.
const exitNotUniform = command.ExitBreach

// shuffleFlags are the flags of riffle-lab shufflecheck.
type shuffleFlags struct {
	stdin, wire, json     bool
	plant, seed           string
	releases, size, power int
	progress              *progress.Progress
}

// The defaults. In releases of 48 messages every planted fault but the weakest is found with power 0.99
// (lab/docs/shufflecheck.md).
const (
	defaultReleases     = 4000
	defaultSize         = 48
	defaultWireReleases = 100
	defaultPowerRuns    = 20
)

// What is mixed in memory. For each of --releases there is one with few messages; of the other kinds there are fewer.
const (
	eachReport     = 3    // messages of a report, where that divides those of the release
	markedChunk    = 16   // messages that leave together
	fewItems       = 5    // of small releases, for which all orders are counted
	spilledItems   = 6000 // of releases that do not fit into the least memory, and go through several buckets
	spilledOneIn   = 200  // releases, one is of that size
	workersOneIn   = 10   // releases, one is mixed by workers, too
	workersMixing  = 3
	workersBuckets = 4
	leastMemory    = 1       // bytes: the store takes the least that it can
	powerItems     = 50_000  // of a simulated run, unless more are judged: seconds for all faults together
	powerReleases  = 100_000 // of a simulated run, at most
)

func shufflecheckCommand() *cobra.Command {
	f := &shuffleFlags{}
	cmd := &cobra.Command{
		Use:   "shufflecheck",
		Short: "test whether a shuffler's orders are uniformly random",
		Long: `
Judges orders by ten statistical tests: of few items all orders; of many, the places of items, neighbours that stay
neighbours, distances, ranks and pairs, the draws of a Fisher-Yates shuffle, reports whose messages leave together or in
one chunk, orders that repeat, single events, and each release in itself. All tests together reject uniformly random
orders with probability 1e-6 at most, however many releases are judged and whenever one stops: that is proved, not
simulated. What they would find is simulated, by planting faults in releases of the same sizes, and printed beside the
verdict: a test without power proves nothing.

Without flags it mixes marked messages with the shuffler's own code: in memory, in several buckets that are spilled to
the disk, and by workers. With --wire it starts a deployment on this machine, sends reports of marked messages through
its broker to its shuffler, and judges the order in which the shuffler forwards them; the order before it is that of
arrival at the broker, that of the slots, and that of the devices. It also sees whether anything leaves before the last
report came.

With --stdin it judges the orders of any shuffler. Each line of the standard input is one release: a JSON array of its
items in the order in which they left, all integers or all strings, and each once. Items are taken to have come in
ascending order (0, 1, 2 and so on; strings by their text, with numbers in it by value). Where they came in another
order, a line {"input": [...]} before the releases says so, with the items in the order in which they came. Such a line
may also have "reports": which report each of them came in, "report_size": how many in a row came in one report, and
"chunk_size": how many left together.

Exit code 4 says that the orders are not uniformly random. With exit code 0 nothing was found, which says as much as the
power does: with few releases there is a warning.`[1:],
		Example: `  riffle-lab shufflecheck
  riffle-lab shufflecheck --wire
  riffle-lab shufflecheck --stdin < orders.jsonl
  riffle-lab shufflecheck --plant modulo --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runShufflecheck(cmd, f) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&f.stdin, "stdin", false, "judge the releases on standard input, one JSON array a line")
	flags.BoolVar(&f.wire, "wire", false, "judge a running shuffler, through the broker of a deployment on this "+
		"machine")
	flags.IntVar(&f.releases, "releases", 0, fmt.Sprintf("releases that are mixed; 0: %d, with --wire %d",
		defaultReleases, defaultWireReleases))
	flags.IntVar(&f.size, "size", defaultSize, "messages of a release, where the messages are mixed in memory")
	flags.StringVar(&f.plant, "plant", "", "break the order on purpose, to see that it is found: "+
		strict.List(uniform.Faults(), "or"))
	flags.StringVar(&f.seed, "seed", "", "64 hexadecimal digits from which the planted fault and the simulations of "+
		"power follow, never\nthe shuffler's own draws; default: drawn by the system")
	flags.IntVar(&f.power, "power-runs", defaultPowerRuns, "simulated runs of each fault, at most; 0: power is not "+
		"simulated")
	flags.BoolVar(&f.json, "json", false, "print the result as one JSON object")
	cmd.MarkFlagsMutuallyExclusive("stdin", "wire", "plant")
	cmd.MarkFlagsMutuallyExclusive("stdin", "releases")
	cmd.MarkFlagsMutuallyExclusive("stdin", "size")
	cmd.MarkFlagsMutuallyExclusive("wire", "size")
	return cmd
}

// seedOf is what --seed says.
func (f *shuffleFlags) seedOf() (seed [32]byte, err error) {
	if f.seed == "" {
		seal.Random(seed[:])
		return seed, nil
	}
	b, err := hex.DecodeString(f.seed)
	if err != nil || len(b) != len(seed) {
		return seed, fmt.Errorf("--seed must have %d hexadecimal digits", 2*len(seed))
	}
	return [32]byte(b), nil
}

// faults lists what is wrong with the flags.
func (f *shuffleFlags) faults() error {
	var all []error
	if f.releases < 0 || f.releases > 1e9 {
		all = append(all, fmt.Errorf("--releases %d: must be from 0 to 1,000,000,000", f.releases))
	}
	if f.size < 2 || f.size > 1e6 {
		all = append(all, fmt.Errorf("--size %d: must be from 2 to 1,000,000", f.size))
	}
	if f.power < 0 {
		all = append(all, fmt.Errorf("--power-runs %d: must not be negative", f.power))
	}
	if len(all) > 0 {
		return &config.Error{Faults: all}
	}
	return nil
}

func runShufflecheck(cmd *cobra.Command, f *shuffleFlags) error {
	if err := f.faults(); err != nil {
		return err
	}
	seed, err := f.seedOf()
	if err != nil {
		return err
	}
	fault, err := uniform.Plant(uniform.Fault(f.plant), rand.NewChaCha8(seed))
	if err != nil {
		return fmt.Errorf("--plant: %w", err)
	}
	ctx, stop := command.UntilStopped(cmd)
	defer stop()
	f.progress = progress.New(cmd.ErrOrStderr(), progress.Options{})
	defer f.progress.Close()
	r, err := f.judge(ctx, cmd.InOrStdin(), fault, seed)
	f.progress.Close()
	if ctx.Err() != nil {
		return errors.New("interrupted; nothing was judged")
	}
	if err != nil {
		return err
	}
	r.Planted = uniform.Fault(f.plant)
	if err := command.Print(cmd, r, f.json); err != nil {
		return err
	}
	if !r.OK {
		return &role.ExitError{Code: exitNotUniform, Err: errors.New("the orders are not uniformly random")}
	}
	return nil
}

// judge gathers releases as the flags say, and judges them.
func (f *shuffleFlags) judge(
	ctx context.Context, in io.Reader, fault *uniform.Planted, seed [32]byte,
) (r *uniform.Result, err error) {
	var samples []*uniform.Sample
	var rules []uniform.Finding
	switch {
	case f.stdin:
		samples = uniform.Samples(0, "")
		err = f.read(ctx, in, samples[0])
	case f.wire:
		samples, rules, err = f.overTheWire(ctx)
	default:
		samples, err = f.mix(ctx, fault)
	}
	if err != nil {
		return nil, err
	}
	f.progress.Update(func(s *progress.State) { *s = progress.State{Phase: "simulating power"} })
	return uniform.Verdict(ctx, samples, rules, uniform.PowerOptions{
		Runs: f.power, Items: powerItems, Most: powerReleases, Seed: seed,
		Progress: func(done, all int) {
			f.progress.Update(func(s *progress.State) { s.Work, s.AllWork = max(s.Work, done), all })
		},
	})
}

// read judges the releases of a file.
func (f *shuffleFlags) read(ctx context.Context, in io.Reader, sample *uniform.Sample) error {
	f.progress.Update(func(s *progress.State) { s.Phase = "reading" })
	err := uniform.Read(in, func(r *uniform.Release, shape uniform.Shape) error {
		f.progress.Update(func(s *progress.State) { s.Messages += len(r.Order) })
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return sample.Add(r, shape)
	})
	if err == nil && sample.Judge().Releases() == 0 {
		err = fmt.Errorf("%w: no release is in it", uniform.ErrFormat)
	}
	if err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	return nil
}

// mix judges what the shuffler's own code does with marked messages.
func (f *shuffleFlags) mix(ctx context.Context, fault *uniform.Planted) ([]*uniform.Sample, error) {
	folder, err := os.MkdirTemp("", "riffle-shufflecheck-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	releases := f.releases
	if releases == 0 {
		releases = defaultReleases
	}
	type part struct {
		name     string
		setup    inmemory.Setup
		releases int
		sizes    []int // messages of releases, in turn
	}
	parts := []part{
		{"memory", inmemory.Setup{}, releases, []int{f.size, fewItems}},
		{"disk", inmemory.Setup{Memory: leastMemory}, max(1, releases/spilledOneIn), []int{max(f.size, spilledItems)}},
		{"workers", inmemory.Setup{Workers: workersMixing, Buckets: workersBuckets}, max(1, releases/workersOneIn),
			[]int{f.size}},
	}
	if f.plant != "" { // what workers send goes through no spool, whose order could be another one
		parts = parts[:2]
	}
	var names []string
	all := 0
	for _, p := range parts {
		names = append(names, p.name)
		for _, size := range p.sizes {
			all += p.releases * size
		}
	}
	samples := uniform.Samples(0, names...)
	f.progress.Update(func(s *progress.State) { *s = progress.State{Phase: "mixing", AllWork: all} })
	for i, p := range parts {
		p.setup.Folder, p.setup.Chunk = filepath.Join(folder, p.name), markedChunk
		if f.plant != "" {
			p.setup.Reorder = reorder(fault)
		}
		mixing, err := inmemory.NewMarked(p.setup)
		if err != nil {
			return nil, err
		}
		for n := range p.releases * len(p.sizes) {
			if err := f.mixOne(ctx, mixing, samples[i], p.sizes[n%len(p.sizes)]); err != nil {
				return nil, errors.Join(err, mixing.Close())
			}
		}
		if err := mixing.Close(); err != nil {
			return nil, err
		}
	}
	return samples, nil
}

// mixOne judges one release of so many messages.
func (f *shuffleFlags) mixOne(
	ctx context.Context, mixing *inmemory.Marked, sample *uniform.Sample, messages int,
) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	each := inReport(messages)
	order, chunks, err := mixing.Order(ctx, messages/each, each)
	if err != nil {
		return err
	}
	r := &uniform.Release{Order: order, Chunks: chunks, Reports: make([]int, messages)}
	for i := range r.Reports {
		r.Reports[i] = i / each
	}
	f.progress.Update(func(s *progress.State) { s.Work += messages })
	return sample.Add(r, uniform.Shape{Items: messages, Report: each, Chunk: markedChunk})
}

// inReport is how many messages each report has of a release with so many.
func inReport(messages int) int {
	if messages%eachReport != 0 {
		return 1
	}
	return eachReport
}

// reorder plants a fault in the order of a release.
func reorder(fault *uniform.Planted) func([]int) {
	return func(messages []int) {
		slices.Sort(messages)
		copy(messages, fault.Shuffle(uniform.Shape{
			Items: len(messages), Report: inReport(len(messages)), Chunk: markedChunk,
		}).Order)
	}
}
