package envelope

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	machine "github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"
)

const (
	deployment = "envelopes"
	people     = 8
	serverBits = 1_000_000
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

// In local the counts are the sums of what is in the envelopes, and say as much when they are counted again.
func TestLocalAddsUpEntries(t *testing.T) {
	t.Parallel()
	x := newTable(t, plan.Local)
	envelopes := x.envelopes(people)
	m := x.cut(envelopes)
	want := x.exactly(envelopes, 0)
	for range 2 {
		counts, err := x.count(m)
		if err != nil || !slices.Equal(counts[0].Ones, want[:2]) || !slices.Equal(counts[1].Ones, want[2:]) {
			t.Fatalf("%v, %v, want %v", counts, err, want)
		}
		sums, err := machine.Sums(x.round.Announcement, &wire.Counts{Reports: people, Releases: counts})
		x.must(err)
		if d := sums[1].Values[0] - 7*people; d*d > 36*sums[1].Variance[0] {
			t.Errorf("sum %v of %v", sums[1].Values[0], 7*people)
		}
		x.Counting = x.process()
	}
	if x.Participants.Devices(1) != people {
		t.Errorf("%d devices are remembered", x.Participants.Devices(1))
	}
}

// In central the counts are the sums with the analyzer's noise, and every later process comes to the same, whatever its
// source gives, and even if the envelopes are gone. The exact sums stand nowhere: not on disk, not in the log.
func TestCentralStoresNoisedSumsOnly(t *testing.T) {
	t.Parallel()
	x := newTable(t, plan.Central)
	envelopes := x.envelopes(people - 1)
	envelopes = append(envelopes, bytes.Clone(envelopes[0])) // so that something is logged
	m := x.cut(envelopes)
	first, err := x.count(m)
	x.must(err)
	exact := x.exactly(envelopes[:people-1], 1)
	sums, err := machine.Sums(x.round.Announcement, &wire.Counts{Reports: people, Releases: first})
	x.must(err)
	if d := sums[1].Values[0] - 7*(people-1); d*d > 36*sums[1].Variance[0] {
		t.Errorf("sum %v of %v, variance %v", sums[1].Values[0], 7*(people-1), sums[1].Variance[0])
	}
	if sums[1].Variance[0] < serverBits/4/16 {
		t.Errorf("variance %v lacks the noise of the analyzer", sums[1].Variance[0])
	}
	noised := append(slices.Clone(first[0].Ones), first[1].Ones...)
	found := func(n uint64) (where []string) {
		for _, name := range x.files() {
			b, err := os.ReadFile(filepath.Join(x.folder, name))
			x.must(err)
			if bytes.Contains(b, binary.BigEndian.AppendUint64(nil, n)) {
				where = append(where, name)
			}
		}
		return where
	}
	for i, n := range exact {
		if i == 1 { // too small to tell from other numbers that stand on disk
			continue
		}
		if n == noised[i] {
			t.Fatalf("no noise on %d", i)
		}
		for _, secret := range []uint64{n, noised[i] - n} {
			if slices.Contains(noised, secret) {
				continue // by chance it is what may stand there: another number's noised sum
			}
			if where := found(secret); len(where) > 0 {
				t.Errorf("the exact sum %d, or its noise, is in %v", i, where)
			}
		}
	}
	if len(found(noised[2])) != 1 { // the search has power
		t.Errorf("the noised sums are in %v", found(noised[2]))
	}
	if log := x.log.String(); !strings.Contains(log, string(Repeated)) || strings.Contains(log, "70") {
		t.Errorf("log: %s", log)
	}
	x.Counting = x.process()
	x.stored = nil
	again, err := x.count(m)
	if err != nil || !slices.Equal(again[0].Ones, first[0].Ones) || !slices.Equal(again[1].Ones, first[1].Ones) {
		t.Errorf("counted again: %v, %v; first %v", again, err, first)
	}
}

func (x *table) files() (names []string) {
	x.t.Helper()
	all, err := os.ReadDir(x.folder)
	x.must(err)
	for _, f := range all {
		names = append(names, f.Name())
	}
	return names
}

// broken is a disk on which files whose name starts so cannot be stored.
type broken struct {
	channel.Folder
	name string
}

var errFull = errors.New("disk full")

func (b broken) Store(name string, write func(io.Writer) error) error {
	if strings.HasPrefix(name, b.name) {
		return errFull
	}
	return b.Folder.Store(name, write)
}

// Where the noised sums, or who was counted, cannot be stored, nothing is returned; the next process counts with other
// noise, which is right because nobody has seen the first.
func TestNothingLeavesBeforeItIsDurable(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"noised", "participants"} {
		x := newTable(t, plan.Central)
		m := x.cut(x.envelopes(people))
		disk := broken{channel.Folder(x.folder), name}
		x.Disk = disk
		var err error
		x.Participants, err = channel.OpenParticipants(disk, deployment, nil)
		x.must(err)
		if counts, err := x.count(m); !errors.Is(err, errFull) || counts != nil {
			t.Errorf("%s cannot be stored: %v, %v", name, counts, err)
		}
		x.Counting = x.process()
		if counts, err := x.count(m); err != nil || len(counts) != 2 {
			t.Errorf("after that: %v", err)
		}
		if x.Participants.Devices(1) != people {
			t.Errorf("%d devices are remembered", x.Participants.Devices(1))
		}
	}
}

// One fraud is tolerated, with its own reason, and counts as a null record; of two the round is rejected, and nobody
// counts as counted. A person is counted once, however often their envelope comes.
func TestFraudsAreRefusedWithTheirReasons(t *testing.T) {
	t.Parallel()
	for _, c := range []plan.Channel{plan.Local, plan.Central} {
		for name, f := range map[string]struct {
			why  outcome.Reason
			make func(x *table, honest [][]byte, i int) []byte
		}{
			"the same envelope twice": {Repeated, func(x *table, honest [][]byte, _ int) []byte { return honest[0] }},
			"another envelope of a device": {Repeated, func(x *table, _ [][]byte, i int) []byte {
				return x.envelope(x.sender(x.host, uint32(i), 1000, x.registrar), -2)
			}},
			"a device of an earlier epoch": {Earlier, func(x *table, _ [][]byte, i int) []byte {
				return x.envelope(x.sender(x.host, 900+uint32(i), 1000, x.registrar), 7)
			}},
			"an invented host": {NoCredential, func(x *table, _ [][]byte, i int) []byte {
				id, err := seal.GenerateIdentity()
				x.must(err)
				return x.envelope(x.sender(id, uint32(i), 1000, id), 7)
			}},
			"a device beyond the credential": {NoCredential, func(x *table, _ [][]byte, i int) []byte {
				return x.envelope(x.sender(x.host, 1000+uint32(i), 1000, x.registrar), 7)
			}},
			"an envelope of another round": {chunks.Undecryptable, func(x *table, _ [][]byte, i int) []byte {
				x.round.Digest[0]++
				defer func() { x.round.Digest[0]-- }()
				return x.envelope(x.sender(x.host, 100+uint32(i), 1000, x.registrar), 7)
			}},
			"noise": {chunks.Undecryptable, func(x *table, honest [][]byte, i int) []byte {
				return bytes.Repeat([]byte{byte(i)}, len(honest[0]))
			}},
			"an entry out of range": {OutOfRange, func(x *table, honest [][]byte, i int) []byte {
				domain := map[plan.Channel]seal.EnvelopeDomain{
					plan.Local: seal.LocalEnvelope, plan.Central: seal.CentralEnvelope,
				}[c]
				s, err := seal.NewEnvelopeSealer(x.round.AnalyzerKey, domain, x.round.Digest)
				x.must(err)
				content := bytes.Repeat([]byte{0xff}, len(honest[0])-seal.EnvelopeOverhead-devices.ProofSize)
				content, err = x.sender(x.host, 100+uint32(i), 1000, x.registrar).AppendProof(content, x.round.Digest, content)
				x.must(err)
				b, err := s.AppendSeal(nil, content, nil)
				x.must(err)
				return b
			}},
			"more devices than a host may have": {HostShare, func(x *table, _ [][]byte, i int) []byte {
				return x.envelope(x.sender(x.host, 100+uint32(i), 1000, x.registrar), 7)
			}},
		} {
			for bad := 1; bad <= 2; bad++ {
				x := newTable(t, c)
				x.HostShare = 0.5 // as many as are honest
				x.must(x.Participants.Add(7, 0, []devices.Participant{
					{Host: [32]byte(x.host.Public()), Number: 900}, {Host: [32]byte(x.host.Public()), Number: 901},
				}))
				envelopes := x.envelopes(people)
				for i := range bad {
					envelopes = append(envelopes, f.make(x, envelopes, i))
				}
				counts, err := x.count(x.cut(envelopes))
				if bad == 2 {
					if !errors.Is(err, chunks.Rejected) || counts != nil || x.Participants.Devices(1) != 0 ||
						!strings.Contains(err.Error(), string(f.why)+": 2") {
						t.Errorf("%s: two of %s: %v", c, name, err)
					}
					continue
				}
				if err != nil || x.refused(f.why) != 1 || x.Participants.Devices(1) != people {
					t.Errorf("%s: %s: %v, account %+v", c, name, err, x.Messages.Balance())
					continue
				}
				if want := x.exactly(envelopes[:people], 1); c == plan.Local &&
					!slices.Equal(slices.Concat(counts[0].Ones, counts[1].Ones), want) {
					t.Errorf("%s: %v, want %v", name, counts, want)
				}
				sums, err := machine.Sums(x.round.Announcement, &wire.Counts{Reports: people + 1, Releases: counts})
				x.must(err)
				// 0.25 is half a level of the bad envelope's null record.
				if d := max(0, sums[1].Values[0]-7*people-0.25, 7*people-0.25-sums[1].Values[0]); d*d > 36*sums[1].Variance[0] {
					t.Errorf("%s: %s: sum %v, want %v", c, name, sums[1].Values[0], 7*people)
				}
			}
		}
	}
}

// What the announcement and the manifest do not allow is rejected, and other envelopes of a round that was summed
// before.
func TestRoundsThatDoNotFitAreRejected(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(x *table, m *wire.Manifest){
		"another announcement":        func(_ *table, m *wire.Manifest) { m.Announcement = make([]byte, 32) },
		"too few reports":             func(x *table, _ *wire.Manifest) { x.round.Cohort.Minimum++ },
		"too many reports":            func(x *table, _ *wire.Manifest) { x.round.Cohort.Size = people - 1 },
		"other chunks":                func(_ *table, m *wire.Manifest) { m.ChunksDigest = make([]byte, 32) },
		"another root":                func(_ *table, m *wire.Manifest) { m.MessagesRoot[0] ^= 1 },
		"another number of envelopes": func(_ *table, m *wire.Manifest) { m.Messages++ },
		"noise messages":              func(_ *table, m *wire.Manifest) { m.NoiseMessages++ },
		"envelopes of fewer reports":  func(x *table, m *wire.Manifest) { m.Reports--; x.round.Cohort.Minimum-- },
		"no noise": func(x *table, _ *wire.Manifest) {
			x.round.Plan.Rounds[0].Releases[1].AnalyzerNoise = 0
		},
		"other devices counted before": func(x *table, _ *wire.Manifest) {
			var who []devices.Participant
			for i := range uint32(people + 1) {
				who = append(who, devices.Participant{Host: [32]byte(x.host.Public()), Number: i})
			}
			x.must(x.Participants.Add(1, 0, who))
		},
		"nobody who was in the epoch": func(x *table, _ *wire.Manifest) {
			x.must(x.Participants.Add(1, 7, []devices.Participant{{Number: 3}}))
			x.round.Cohort.MaxDishonest = people
		},
		"nothing wrong": func(*table, *wire.Manifest) {},
	} {
		x := newTable(t, plan.Central)
		m := x.cut(x.envelopes(people))
		change(x, m)
		counts, err := x.count(m)
		good := name == "nothing wrong"
		if good != (err == nil) || !good && (!errors.Is(err, chunks.Rejected) || counts != nil) {
			t.Errorf("%s: %v", name, err)
		}
		if name == "nothing wrong" {
			counts, err := x.count(x.cut(x.envelopes(people + 1)))
			if !errors.Is(err, chunks.Rejected) || counts != nil {
				t.Errorf("other envelopes of a round that was summed: %v", err)
			}
			path := filepath.Join(x.folder, "noised-1-0")
			b, err := os.ReadFile(path)
			x.must(err)
			b[len(b)-1] ^= 1
			for _, b := range [][]byte{b, b[:len(b)-1], nil} {
				x.must(os.WriteFile(path, b, 0o600))
				if _, err := x.count(m); !errors.Is(err, channel.ErrDamagedState) {
					t.Errorf("damaged sums: %v", err)
				}
			}
		}
	}
}

// Devices that were not in an epoch's first round are not counted in a later one.
func TestLaterRoundsCountTheFirstOnesDevices(t *testing.T) {
	t.Parallel()
	x := newTable(t, plan.Central)
	var who []devices.Participant
	for i := range people - 1 {
		who = append(who, devices.Participant{Host: [32]byte(x.host.Public()), Number: uint32(i)})
	}
	x.must(x.Participants.Add(1, 7, who)) // another round of the epoch
	counts, err := x.count(x.cut(x.envelopes(people)))
	if err != nil || counts == nil || x.refused(Newcomer) != 1 {
		t.Errorf("%v, account %+v", err, x.Messages.Balance())
	}
}
