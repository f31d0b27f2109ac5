package shares

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

const deployment = "fixture"

// fixture is a round with the keys of everyone who takes part in it; all are the same in every run.
type fixture struct {
	testing.TB
	announcement        *plan.Announcement
	digest              [32]byte
	round               *Round
	secret              Secret
	analyzer            *seal.HPKEKey
	registrar, shuffler *seal.Identity
	verifier            *channel.Verifier
	by                  channel.Sender
	leader              *Leader
	helper              *Helper
	device              *Device
	leaderSum           *LeaderSum
	helperSum           *HelperSum
}

// two is a round of two releases with ranges and noise of different sizes: five entries of five bits.
func two() ([]protocol.Encoding, []plan.Release) {
	encodings := []protocol.Encoding{
		{Scale: 4, NoiseBits: 8, Bias: protocol.BiasHalf,
			Coordinates: []protocol.Coordinate{{Offset: -1, Levels: 8}, {Offset: 0, Levels: 3},
				{Offset: 0, Levels: 12}}},
		{Scale: 2, NoiseBits: 2, Bias: protocol.BiasQuarter,
			Coordinates: []protocol.Coordinate{{Offset: -2, Levels: 9}, {Offset: -2, Levels: 9}}},
	}
	releases := []plan.Release{
		{Shift: 1, NoiseBits: 8, Bias: protocol.BiasHalf, ShufflerNoise: 40, AnalyzerNoise: 30},
		{Shift: 1, NoiseBits: 2, Bias: protocol.BiasQuarter, ShufflerNoise: 20},
	}
	return encodings, releases
}

// wide is a round with one release of so many coordinates, whose entries have so many bits.
func wide(coordinates int, bits uint) ([]protocol.Encoding, []plan.Release) {
	e := protocol.Encoding{Scale: 1, NoiseBits: 2, Bias: protocol.BiasHalf}
	for range coordinates {
		e.Coordinates = append(e.Coordinates, protocol.Coordinate{Levels: 1<<bits - 3})
	}
	return []protocol.Encoding{e}, []plan.Release{{Shift: 1, NoiseBits: 2, Bias: protocol.BiasHalf}}
}

func newFixture(tb testing.TB, encodings []protocol.Encoding, releases []plan.Release) *fixture {
	tb.Helper()
	key := func(n byte) []byte { return bytes.Repeat([]byte{n}, 32) }
	f := &fixture{
		TB: tb, digest: [32]byte{1, 2, 3}, analyzer: must(seal.NewHPKEKey(key(5))),
		registrar: must(seal.NewIdentity(key(6))), shuffler: must(seal.NewIdentity(key(7))),
	}
	f.announcement = &plan.Announcement{
		Deployment: deployment, Epoch: 3, Encodings: encodings, AnalyzerKey: f.analyzer.Public(),
		Plan: plan.Plan{Channel: plan.Shares, Rounds: []plan.Round{{Releases: releases}}},
	}
	f.secret = NewSecret(f.shuffler, [32]byte{9})
	f.verifier = channel.NewVerifier(wire.Party{Deployment: deployment, Key: f.registrar.Public()})
	f.by = f.host(8, 4)
	f.open()
	return f
}

// open makes everything that belongs to the round.
func (f *fixture) open() {
	f.round = must(NewRound(f.announcement, f.digest))
	f.leader = must(f.round.NewLeader(f.secret))
	f.helper = must(f.round.NewHelper(f.secret, f.analyzer, f.verifier))
	f.device = must(NewDevice(f.announcement, f.digest))
	f.leaderSum = must(f.round.NewLeaderSum())
	f.helperSum = must(f.round.NewHelperSum())
}

// host is the sender of device 1 of a host that the registrar admitted with so many devices.
func (f *fixture) host(n byte, devices uint32) channel.Sender {
	identity := must(seal.NewIdentity(bytes.Repeat([]byte{n}, 32)))
	credential, _, err := wire.Sign(&wire.Credential{
		Deployment: deployment, HostKey: identity.Public(), Devices: devices,
	}, f.registrar)
	return channel.Sender{
		Identity: identity, Credential: must(credential, err), Number: 1, Commitment: f.secret.Commitment(),
	}
}

// payload is a device's report of these entries.
func (f *fixture) payload(entries ...uint64) []byte {
	f.Helper()
	b, err := f.device.share(nil, f.by, entries)
	if err != nil {
		f.Fatal(err)
	}
	return b
}

// message is the shuffler's prepare message of a payload.
func (f *fixture) message(payload []byte) ([]byte, Pending) {
	f.Helper()
	message, pending, err := f.leader.Prepare(nil, payload)
	if err != nil {
		f.Fatal(err)
	}
	return message, pending
}

// refused demands that an error has a reason.
func (f *fixture) refused(what string, err error, want wire.Refusal) {
	f.Helper()
	if err == nil || wire.Reason(err) != want {
		f.Errorf("%s: %v (%v), want %v", what, err, wire.Reason(err), want)
	}
}

// random draws bytes that are the same in every run.
func random(seed byte) func([]byte) {
	src := rand.NewChaCha8([32]byte{seed})
	return func(b []byte) { src.Read(b) }
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
