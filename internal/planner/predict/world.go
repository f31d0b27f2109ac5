package predict

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// world is the people of one run: endlessly many of them, whose rewards follow a model that is known here.
type world struct {
	model family.Environment
	// draw is the options of the next person, one vector each. The caller may keep them and must not change them.
	draw func(r *rand.Rand) [][]float64
	// constant is the option that is best if everybody gets the same; negative: every option is as good as another,
	// since they are drawn anew for each person.
	constant int
	norm     float64 // of the model's parameter
}

// means are the mean rewards of a person's options, within the family's range.
func (w *world) means(arms [][]float64) []float64 {
	f, means := w.model.Family, make([]float64, len(arms))
	for i, x := range arms {
		means[i] = clampedMean(f, convex.Dot(x, w.model.Theta))
	}
	return means
}

// clampedMean is a mean reward. Only linear leaves the range of rewards.
func clampedMean(f family.Family, z float64) float64 {
	return min(max(f.Mean(z), f.MinReward()), f.MaxReward())
}

// fixed is what the best constant option earns of a person.
func (w *world) fixed(means []float64) float64 {
	if w.constant >= 0 {
		return means[w.constant]
	}
	sum := 0.0
	for _, m := range means {
		sum += m
	}
	return sum / float64(len(means))
}

// best is what the best option for this person earns.
func best(means []float64) float64 {
	top := math.Inf(-1)
	for _, m := range means {
		top = max(top, m)
	}
	return top
}

// reward draws the reward of an option.
func (w *world) reward(arm []float64, src protocol.Source) float64 { return w.model.Reward(arm, src) }

// The streams of random words of a run.
const (
	streamModel  = iota + 1 // the assumed parameter, and people on whom its size is set
	streamPeople            // who come
	streamFresh             // on whom policies are valued
	streamCoins             // devices' own
	streamNoise
	streamRewards
	streamClear   // rewards of the yardstick
	streamOptions // that its first people get
)

// stream is the generator of one purpose in one run: a simulation's, so that a prediction can be repeated.
func stream(run, purpose uint64) *rand.ChaCha8 {
	var key [32]byte
	copy(key[:8], "predict ")
	binary.LittleEndian.PutUint64(key[8:], run)
	binary.LittleEndian.PutUint64(key[16:], purpose)
	return rand.NewChaCha8(key)
}
