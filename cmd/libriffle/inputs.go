//go:build cgo || js

package main

import (
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/strict"
	"github.com/riffle-dp/riffle/pkg/transparency"
)

// What a caller passes as text, read strictly: one JSON value, no unknown fields, nothing behind it. No error about
// arms names a value.

// config is what open reads. Bytes are in base64.
type config struct {
	Deployment string        `json:"deployment"`
	Number     uint32        `json:"number"`             // of the device under the credential; from 0
	Analyzer   []byte        `json:"analyzer"`           // Ed25519 public key, 32 bytes
	Shuffler   []byte        `json:"shuffler"`           // Ed25519 public key, 32 bytes
	Identity   []byte        `json:"identity,omitempty"` // seed of the Ed25519 key that signs for the device, 32 bytes: secret
	Public     []byte        `json:"public,omitempty"`   // in place of Identity, where a function signs: public key, 32 bytes
	Credential []byte        `json:"credential"`         // signed by the registrar
	Limits     device.Limits `json:"limits"`             // what is absent is as in device.DefaultLimits
	// Whose cosignatures begin believes: the lines that riffle witness keygen wrote, and how many of them it takes.
	Witnesses []string `json:"witnesses,omitempty"`
	Quorum    int      `json:"quorum,omitempty"`
}

// witnesses are those of the configuration.
func (c config) witnesses() (w transparency.Witnesses, err error) {
	w.Quorum = c.Quorum
	for _, line := range c.Witnesses {
		name, key, err := transparency.ParseVerifierKey(line)
		if err != nil {
			return w, fmt.Errorf("config: witnesses: %w", err)
		}
		w.All = append(w.All, transparency.Witness{Name: name, Key: key})
	}
	return w, nil
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

// signer is who signs for the device.
func (c config) signer(sign func(message []byte) ([]byte, error)) (seal.Signer, error) {
	switch {
	case sign == nil && len(c.Public) == 0:
		return seal.NewIdentity(c.Identity)
	case sign != nil && len(c.Identity) == 0:
		return seal.NewSigner(c.Public, sign)
	}
	return nil, errors.New(`give "identity", or "public" and a function that signs`)
}

// readArms reads arms as decide takes them: a list of lists of numbers, or an object with a choice.
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

// asked is what encode reads.
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
