package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/riffle-dp/riffle/internal/world"
	"github.com/riffle-dp/riffle/lab/experiment"
	"github.com/riffle-dp/riffle/lab/life"
	"github.com/riffle-dp/riffle/lab/poison"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// canaryFile holds the canaries of what pages show, as they were when it was made.
const canaryFile = "canaries.json"

// kept is the content of the file.
type kept struct {
	Architecture string            `json:"architecture"` // of the machine that made them: floating point differs
	Canaries     map[string]string `json:"canaries"`
	// Earlier names what was measured with an earlier program and not made anew: lab/docs/results.md must say so of
	// each.
	Earlier []string `json:"earlier,omitempty"`
}

func readCanaries(path string) (k kept, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return kept{Canaries: map[string]string{}}, nil
	}
	if err != nil {
		return k, err
	}
	return k, json.Unmarshal(text, &k)
}

// keepCanary writes the canary of one name, whose numbers were made now.
func keepCanary(ctx context.Context, name string) error {
	path := filepath.Join(root, folder, canaryFile)
	k, err := readCanaries(path)
	if err != nil {
		return err
	}
	if k.Architecture != runtime.GOARCH { // the others' numbers are of another architecture, too
		k = kept{Architecture: runtime.GOARCH, Canaries: map[string]string{}}
	}
	if k.Canaries[name], err = canary(ctx, name, ""); err != nil {
		return err
	}
	k.Earlier = slices.DeleteFunc(k.Earlier, func(n string) bool { return n == name })
	return writeCanaries(path, k)
}

func writeCanaries(path string, k kept) error {
	text, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// canary is a digest of short runs of what a name stands for; see experiment.Canary.
func canary(ctx context.Context, name, folder string) (string, error) {
	switch name {
	case privacyName:
		found, err := shortPrivacy()
		return digest(found, err)
	case "life":
		rows, err := shortLife(ctx)
		return digest(rows, err)
	case "poison":
		found, err := poison.Compare(ctx, poison.Setting{People: 250, Shares: []float64{0.05},
			Channels: []plan.Channel{plan.Shuffle, plan.Shares}}, poison.Options{Seeds: 1, FirstSeed: 1})
		return digest(found, err)
	}
	return experiment.Canary(ctx, name, folder)
}

// shortLife is each kind of mode, with all that a deployment which lasts can have.
func shortLife(ctx context.Context) ([]world.Row, error) {
	setting := world.Setting{Epsilon: plan.DefaultEpsilon, HalfLife: 2, Alarm: 0.001, Control: 0.2, World: world.World{
		People: 300, Days: 8, Change: &world.Change{Kind: world.Abrupt, At: 0.5, Turn: 90},
	}}
	return life.Compare(ctx, setting, world.Modes([]int{1, 3}, []int{4}), life.Options{Seeds: 1, FirstSeed: 1})
}

func digest(of any, err error) (string, error) {
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(of)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8]), err
}
