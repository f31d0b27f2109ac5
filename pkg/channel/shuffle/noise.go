package shuffle

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"sync"

	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// MaxNoiseMessages bounds the bit messages that a shuffler makes for one round: 870 MB, and some 15 minutes of one
// processor.
const MaxNoiseMessages = 1 << 24

// NoiseMessages is how many bit messages the shuffler adds to a round of the channel shuffle; 0 in every other channel,
// and the largest number where it is too large for a uint64. The announcement is in range.
func NoiseMessages(a *plan.Announcement) (messages uint64) {
	if a.Plan.Channel != plan.Shuffle {
		return 0
	}
	for i, r := range a.Releases() {
		high, low := bits.Mul64(r.ShufflerNoise, uint64(len(a.Encodings[i].Coordinates)))
		sum, carry := bits.Add64(messages, low, 0)
		if messages = sum; high|carry != 0 {
			return math.MaxUint64
		}
	}
	return messages
}

// ErrNoise says that a plan wants more than MaxNoiseMessages.
var ErrNoise = fmt.Errorf("shuffle: the plan wants more noise of the shuffler than the %d messages that it can make; "+
	"lower the analyzer's privacy.server_noise", MaxNoiseMessages)

// AppendNoise appends the shuffler's noise of a round to dst: for each coordinate of each release as many bit messages
// as the plan says, each a one with the release's bias, exactly and independently of all others. digest is the
// announcement's. They are made as a device's are and seal.BitSize bytes each, so that only their place tells them from
// those: they must be permuted among them, and the noise must be kept nowhere. The bits come from src, whose number of
// words depends on the bits; encryption draws from crypto/rand, on all processors.
//
// Errors are seal.ErrKey, ErrNoise, or the context's cause.
func AppendNoise(
	ctx context.Context, dst []byte, a *plan.Announcement, digest [32]byte, src protocol.Source,
) ([]byte, error) {
	begin := len(dst)
	err := EachNoise(ctx, a, digest, src, func(messages []byte) error {
		dst = append(dst, messages...)
		return nil
	})
	if err != nil {
		clear(dst[begin:])
		return dst[:begin], err
	}
	return dst, nil
}

// batchTasks is how many tasks' messages EachNoise makes at a time: 850 kB.
const batchTasks = 32

// EachNoise makes the noise of AppendNoise in batches of at most 16384 messages, and calls f with one after another. A
// batch is valid only during the call. Errors are AppendNoise's, or f's.
func EachNoise(
	ctx context.Context, a *plan.Announcement, digest [32]byte, src protocol.Source, f func(messages []byte) error,
) error {
	messages := NoiseMessages(a)
	if messages == 0 {
		return nil
	}
	if messages > MaxNoiseMessages {
		return ErrNoise
	}
	sealer, err := seal.NewBitSealer(a.AnalyzerKey, digest)
	if err != nil {
		return err
	}
	buffer := make([]byte, min(messages, batchTasks*taskMessages)*seal.BitSize)
	defer clear(buffer)
	rest := buffer
	var tasks []task
	flush := func() error { // what was collected
		if err := sealAll(ctx, sealer, tasks); err != nil {
			return err
		}
		err := f(buffer[:len(buffer)-len(rest)])
		tasks, rest = tasks[:0], buffer
		return err
	}
	for i, r := range a.Releases() {
		for j := range a.Encodings[i].Coordinates {
			ones := protocol.Binomial(r.ShufflerNoise, r.Bias, src)
			for left := r.ShufflerNoise; left > 0; {
				n := min(left, taskMessages, uint64(len(rest)/seal.BitSize))
				t := task{rest[:n*seal.BitSize], uint8(i), uint16(j), min(n, ones)}
				rest, left, ones = rest[n*seal.BitSize:], left-n, ones-t.ones
				if tasks = append(tasks, t); len(rest) == 0 {
					if err := flush(); err != nil {
						return err
					}
				}
			}
		}
	}
	if len(tasks) == 0 {
		return nil
	}
	return flush()
}

// sealAll does tasks on all processors.
func sealAll(ctx context.Context, sealer *seal.BitSealer, tasks []task) error {
	next := make(chan task, len(tasks))
	for _, t := range tasks {
		next <- t
	}
	close(next)
	var sealing sync.WaitGroup
	var failed error
	var once sync.Once
	for range min(runtime.GOMAXPROCS(0), len(tasks)) {
		sealing.Go(func() {
			for t := range next {
				if err := t.seal(ctx, sealer); err != nil {
					once.Do(func() { failed = err })
					return
				}
			}
		})
	}
	sealing.Wait()
	return failed
}

// taskMessages is how many messages are sealed in one go: some 25 ms.
const taskMessages = 512

// task is messages of one coordinate that are to be sealed, the ones first.
type task struct {
	messages   []byte // where they go
	release    uint8
	coordinate uint16
	ones       uint64
}

func (t task) seal(ctx context.Context, sealer *seal.BitSealer) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	_, err := sealer.AppendSealRun(t.messages[:0], t.release, t.coordinate, len(t.messages)/seal.BitSize, int(t.ones))
	return err
}
