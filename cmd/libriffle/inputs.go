//go:build cgo

package main

import (
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/strict"
)

// What a caller passes as text, read strictly: one JSON value, no unknown fields, nothing behind it. No error about
// arms names a value.

// config is what riffle_open reads. Bytes are in base64.
type config struct {
	Deployment string        `json:"deployment"`
	Number     uint32        `json:"number"`     // of the device under the credential; from 0
	Analyzer   []byte        `json:"analyzer"`   // Ed25519 public key, 32 bytes
	Shuffler   []byte        `json:"shuffler"`   // Ed25519 public key, 32 bytes
	Identity   []byte        `json:"identity"`   // seed of the Ed25519 key that signs for the device, 32 bytes: secret
	Credential []byte        `json:"credential"` // signed by the registrar
	Limits     device.Limits `json:"limits"`     // what is absent is as in device.DefaultLimits
}

// strictly reads one JSON value, of which any field may be absent.
func strictly(text string, into any) error {
	return strict.Unmarshal([]byte(text), into, strict.Options{Missing: true})
}

func readConfig(text string) (config, error) {
	c := config{Limits: device.DefaultLimits()}
	if err := strictly(text, &c); err != nil {
		return config{}, fmt.Errorf("config: %w", err)
	}
	return c, nil
}

// readArms reads arms as riffle_decide takes them: a list of lists of numbers, or an object with a choice.
func readArms(text string) (arms [][]float64, of glm.Choice, err error) {
	if strictly(text, &arms) == nil {
		return arms, of, nil
	}
	var set struct {
		Arms    [][]float64 `json:"arms"`
		Default int         `json:"default"`
		Exclude []int       `json:"exclude"`
	}
	if strictly(text, &set) != nil {
		return nil, of, errors.New(`the arms are not a JSON list of lists of numbers, nor {"arms": list, "default": ` +
			`index, "exclude": [index, ...]}`)
	}
	return set.Arms, glm.Choice{Default: set.Default, Excluded: set.Exclude}, nil
}

// readArmsAndChoice reads what riffle_decide_for takes.
func readArmsAndChoice(text, choice string) (arms [][]float64, of glm.Choice, err error) {
	if strictly(text, &arms) != nil {
		return nil, of, errors.New("the arms are not a JSON list of lists of numbers")
	}
	var set struct {
		Default int   `json:"default"`
		Exclude []int `json:"exclude"`
	}
	if strictly(choice, &set) != nil {
		return nil, of, errors.New(`the choice is not JSON like {"default": 0, "exclude": [1]}`)
	}
	return arms, glm.Choice{Default: set.Default, Excluded: set.Exclude}, nil
}

// asked is what riffle_encode reads.
type asked struct {
	Context feature.Values `json:"context"`
	Arms    []feature.Arm  `json:"arms"`
}

func readAsked(text string) (asked, error) {
	var about asked
	switch err := strictly(text, &about); {
	case errors.Is(err, feature.ErrFeatures):
		return asked{}, err
	case err != nil: // it could name a value
		return asked{}, errors.New(`the features are not JSON like {"context": {...}, "arms": [{"id": "a", ...}, ...]}`)
	}
	return about, nil
}
