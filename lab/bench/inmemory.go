package bench

import (
	"context"
	"os"
	"runtime/debug"
	"time"

	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// InMemory is one release of junk through the shuffler's own code for mixing in this process, with memory in place of
// disk and broker.
type InMemory struct {
	Messages int `json:"messages"`
	// Processor time in seconds: for keeping the reports; for the search for repeated messages and scattering; for
	// permuting; for cutting into chunks and for the digests of all messages that the manifest states.
	TakeCPU    float64 `json:"take_cpu_seconds"`
	ScatterCPU float64 `json:"scatter_cpu_seconds"`
	PermuteCPU float64 `json:"permute_cpu_seconds"`
	SendCPU    float64 `json:"send_cpu_seconds"`
	// MixPerCore is messages a second of processor time without the last part, PerCore with it.
	MixPerCore float64 `json:"mixed_messages_per_core_second"`
	PerCore    float64 `json:"messages_per_core_second"`
}

// Mixer mixes so many reports of junk for an announcement and fills in the messages and the four times of the result.
// The folder is its own; cpu is the processor time of this process so far.
type Mixer func(ctx context.Context, a *plan.Announcement, reports int, folder string, cpu func() time.Duration) (
	InMemory, error)

// inMemoryMost is how many messages are mixed in memory at most: they take some four times their bytes.
const inMemoryMost = 5_000_000

// runInMemory mixes as many messages in memory as the largest release has that runs through streams.
func runInMemory(ctx context.Context, o Options, r *Result) error {
	if len(o.Mixed) == 0 || o.Mixer == nil {
		return nil
	}
	of, a, err := shapeOf(plan.Shuffle, mixedDimension, leastUsers)
	if err != nil {
		return err
	}
	folder, err := o.folderOf("memory")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	defer debug.FreeOSMemory()
	reports := (min(o.Mixed[len(o.Mixed)-1], inMemoryMost) + of.messages - 1) / of.messages
	m, err := o.Mixer(ctx, a, reports, folder, func() time.Duration { return cluster.Own().CPU })
	if err != nil {
		return err
	}
	if mixed := m.TakeCPU + m.ScatterCPU + m.PermuteCPU; mixed > 0 {
		m.MixPerCore, m.PerCore = float64(m.Messages)/mixed, float64(m.Messages)/(mixed+m.SendCPU)
	}
	r.InMemory = &m
	return nil
}
