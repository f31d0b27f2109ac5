package envelope

import (
	"bytes"
	"context"
	"crypto/sha256"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/chunks"
	"github.com/riffle-dp/riffle/internal/channel/spill"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/envelope"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"
)

const (
	deployment = "envelopes"
	people     = 8
	serverBits = 900_000 // half of it begins with another byte than people - 1, which is before a hash in a file
)

// table is one round whose envelopes a test makes by hand.
type table struct {
	t         *testing.T
	folder    string
	log       bytes.Buffer
	stored    testbed.Chunks
	registrar *seal.Identity
	host      *seal.Identity
	round     *channel.Round
	*Counting
}

func newTable(t *testing.T, c plan.Channel) *table {
	t.Helper()
	x := &table{t: t, folder: t.TempDir()}
	key, err := seal.GenerateHPKE()
	x.must(err)
	x.registrar, err = seal.GenerateIdentity()
	x.must(err)
	x.host, err = seal.GenerateIdentity()
	x.must(err)
	release := plan.Release{NoiseBits: 40, Bias: protocol.BiasHalf}
	if c == plan.Central {
		release = plan.Release{AnalyzerNoise: serverBits, Bias: protocol.BiasHalf}
	}
	a := &plan.Announcement{
		Deployment: deployment, Epoch: 1, AnalyzerKey: key.Public(),
		Cohort: plan.Cohort{Size: 2 * people, Minimum: people, MaxDishonest: 1},
		Plan:   plan.Plan{Channel: c, Rounds: []plan.Round{{Releases: []plan.Release{release, release}}}},
	}
	for _, coordinates := range [][]protocol.Coordinate{
		{{Offset: -1, Levels: 8}, {Levels: 3}}, {{Offset: -2, Levels: 20_000}},
	} {
		a.Encodings = append(a.Encodings,
			protocol.Encoding{Scale: 4, Coordinates: coordinates, NoiseBits: release.NoiseBits, Bias: release.Bias})
	}
	x.round = &channel.Round{Announcement: a, Digest: [32]byte{1}, Key: key}
	x.Counting = x.process()
	return x
}

func (x *table) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

// process is what an analyzer starts with.
func (x *table) process() *Counting {
	x.t.Helper()
	disk := channel.Folder(x.folder)
	participants, err := channel.OpenParticipants(disk, deployment, nil)
	x.must(err)
	spilt, err := spill.New(x.t.TempDir(), 1<<16)
	x.must(err)
	x.t.Cleanup(func() { _ = spilt.Close() })
	account, err := outcome.New(prometheus.NewRegistry(), "test", "envelope", nil, CountReasons()...)
	x.must(err)
	return &Counting{
		Receiver: chunks.Receiver[*Found]{
			Store: &x.stored, Spill: spilt, Clock: role.SystemClock(), Log: zerolog.New(zerolog.SyncWriter(&x.log)),
		},
		Verifier:     devices.NewVerifier(wire.Party{Deployment: deployment, Key: x.registrar.Public()}),
		Participants: participants,
		Disk:         disk, Source: rand.NewChaCha8([32]byte{byte(x.log.Len())}), Messages: account,
	}
}

func (x *table) sender(host *seal.Identity, number, covered uint32, registrar *seal.Identity) devices.Sender {
	x.t.Helper()
	credential, _, err := wire.Sign(
		&wire.Credential{Deployment: deployment, HostKey: host.Public(), Devices: covered}, registrar)
	x.must(err)
	return devices.Sender{Identity: host, Credential: credential, Number: number}
}

// installation is one of an issuer whose certificate is for one.
func (x *table) installation(n byte) devices.Sender {
	x.t.Helper()
	issuer, err := seal.NewIdentity(bytes.Repeat([]byte{200}, 32))
	x.must(err)
	own, err := seal.NewIdentity(bytes.Repeat([]byte{201 + n}, 32))
	x.must(err)
	certificate, _, err := wire.Sign(&wire.IssuerCertificate{Deployment: deployment, Key: issuer.Public(), First: 1,
		Last: 9, Installations: 1}, x.registrar)
	x.must(err)
	credential, _, err := wire.Sign(&wire.Credential{Deployment: deployment, HostKey: own.Public(), Devices: 1,
		NotAfter: 9, Issuer: certificate}, issuer)
	x.must(err)
	return devices.Sender{Identity: own, Credential: credential}
}

// envelope is the envelope of a device with a value at the last coordinate, in data units.
func (x *table) envelope(by devices.Sender, value float64) []byte {
	x.t.Helper()
	d, err := envelope.NewDevice(x.round.Announcement, x.round.Digest)
	x.must(err)
	b, err := d.Append(nil, by, [][]float64{{0.5, 0.25}, {value}}, rand.NewChaCha8([32]byte{byte(by.Number)}))
	x.must(err)
	return b
}

func (x *table) envelopes(n int) (all [][]byte) {
	for i := range n {
		all = append(all, x.envelope(x.sender(x.host, uint32(i), 1000, x.registrar), 7))
	}
	return all
}

// cut stores envelopes in chunks of three, and returns the manifest that names them.
func (x *table) cut(envelopes [][]byte) *wire.Manifest {
	x.t.Helper()
	x.stored = nil
	var digests [][32]byte
	for part := range slices.Chunk(envelopes, 3) {
		c, err := wire.BuildChunk(
			wire.Chunk{Epoch: x.round.Epoch, Index: uint32(len(x.stored)), Payload: slices.Concat(part...)})
		x.must(err)
		x.stored, digests = append(x.stored, c), append(digests, wire.ChunkDigest(c))
	}
	var messages [][32]byte
	for _, b := range envelopes {
		messages = append(messages, sha256.Sum256(b))
	}
	all, root := wire.ChunksDigest(digests), transparency.SortedRoot(messages)
	return &wire.Manifest{
		Epoch: x.round.Epoch, Announcement: x.round.Digest[:], Reports: uint32(len(envelopes)),
		Messages: uint64(len(envelopes)), Chunks: uint32(len(x.stored)), ChunksDigest: all[:], MessagesRoot: root[:],
	}
}

// count counts the round, as everything came in time.
func (x *table) count(m *wire.Manifest) ([]wire.ReleaseCounts, error) {
	x.t.Helper()
	return x.Count(x.t.Context(), x.round, func(context.Context) (*wire.Manifest, error) {
		for _, c := range x.stored {
			x.Take(channel.Part{Epoch: x.round.Epoch, Payload: c})
		}
		return m, nil
	})
}

// exactly is the sum of what is in these envelopes, and of this number of null records.
func (x *table) exactly(envelopes [][]byte, absent int) []uint64 {
	x.t.Helper()
	sum := make([]uint64, 3)
	opener, err := envelope.NewOpener(x.round.Announcement, x.round.Digest, x.round.Key, x.Verifier)
	x.must(err)
	for _, b := range envelopes {
		entries, _, err := opener.Open(nil, b)
		x.must(err)
		for i, e := range entries {
			sum[i] += uint64(e)
		}
	}
	for i, e := range envelope.Absent(nil, x.round.Encodings) {
		sum[i] += uint64(absent) * uint64(e)
	}
	return sum
}

func (x *table) refused(r outcome.Reason) int {
	for _, c := range x.Messages.Balance().Refused {
		if c.Reason == r {
			return int(c.Items)
		}
	}
	return -1
}
