package envelope

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

var (
	_ channel.Device = (*Device)(nil)

	update = flag.Bool("update", false, "write the golden files")
)

const deployment = "boxes"

// fixture is a round, with the keys that it takes to report in it.
type fixture struct {
	t         testing.TB
	a         *plan.Announcement
	digest    [32]byte
	key       *seal.HPKEKey
	registrar wire.Party
	by        channel.Sender
}

func newFixture(t testing.TB, c plan.Channel) *fixture {
	t.Helper()
	b := &fixture{t: t, digest: [32]byte{7}}
	var err error
	b.key, err = seal.NewHPKEKey(bytes.Repeat([]byte{1}, 32))
	b.must(err)
	noise := []uint32{500, 70_000}
	if c == plan.Central {
		noise = []uint32{0, 0}
	}
	b.a = &plan.Announcement{
		Deployment: deployment, Epoch: 1, AnalyzerKey: b.key.Public(), Plan: plan.Plan{Channel: c},
		Encodings: []protocol.Encoding{
			{Scale: 4, Coordinates: []protocol.Coordinate{{Offset: -1, Levels: 8}, {Offset: 0, Levels: 3}},
				NoiseBits: noise[0], Bias: protocol.BiasHalf},
			{Scale: 2, Coordinates: []protocol.Coordinate{{Offset: -2, Levels: 9}},
				NoiseBits: noise[1], Bias: protocol.BiasQuarter},
		},
	}
	registrar := b.identity(2)
	b.registrar = wire.Party{Deployment: deployment, Key: registrar.Public()}
	b.by = b.sender(registrar, b.identity(3), 10)
	return b
}

func (b *fixture) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *fixture) identity(seed byte) *seal.Identity {
	b.t.Helper()
	id, err := seal.NewIdentity(bytes.Repeat([]byte{seed}, 32))
	b.must(err)
	return id
}

func (b *fixture) sender(registrar, host *seal.Identity, devices uint32) channel.Sender {
	b.t.Helper()
	credential, _, err := wire.Sign(
		&wire.Credential{Deployment: deployment, HostKey: host.Public(), Devices: devices}, registrar)
	b.must(err)
	return channel.Sender{Identity: host, Credential: credential, Number: 4}
}

func (b *fixture) opener() *Opener {
	b.t.Helper()
	o, err := NewOpener(b.a, b.digest, b.key, channel.NewVerifier(b.registrar))
	b.must(err)
	return o
}

func (b *fixture) envelope(seed byte, vectors [][]float64) []byte {
	b.t.Helper()
	d, err := NewDevice(b.a, b.digest)
	b.must(err)
	envelope, err := d.Append(nil, b.by, vectors, rand.NewChaCha8([32]byte{seed}))
	b.must(err)
	return envelope
}

// content seals what a device would not.
func (b *fixture) content(content []byte) []byte {
	b.t.Helper()
	s, err := seal.NewEnvelopeSealer(b.key.Public(), domain(b.a.Plan.Channel), b.digest)
	b.must(err)
	envelope, err := s.AppendSeal(nil, content, nil)
	b.must(err)
	return envelope
}

func channels(t *testing.T, f func(t *testing.T, c plan.Channel)) {
	t.Helper()
	for _, c := range []plan.Channel{plan.Local, plan.Central} {
		t.Run(string(c), func(t *testing.T) { f(t, c) })
	}
}

// An envelope holds what the encodings give from the same source, names its device, has the announced size whatever the
// vectors, and leaves what precedes it alone.
func TestAnEnvelopeHoldsTheEncodedVectors(t *testing.T) {
	t.Parallel()
	channels(t, func(t *testing.T, c plan.Channel) {
		b := newFixture(t, c)
		d, err := NewDevice(b.a, b.digest)
		b.must(err)
		// 70 009 needs three bytes; 9 needs one.
		want := map[plan.Channel]int{plan.Local: 3 * 3, plan.Central: 3}[c] + channel.ProofSize + seal.EnvelopeOverhead
		if d.Size() != want || Size(b.a.Encodings) != want {
			t.Errorf("size %d and %d, want %d", d.Size(), Size(b.a.Encodings), want)
		}
		o := b.opener()
		for seed, vectors := range [][][]float64{{{0, 0}, {0}}, {{0.6, 0.2}, {-1.5}}, {{1, 0.75}, {2}}} {
			envelope, err := d.Append([]byte("before"), b.by, vectors, rand.NewChaCha8([32]byte{byte(seed)}))
			if err != nil || !bytes.HasPrefix(envelope, []byte("before")) || len(envelope) != len("before")+d.Size() {
				t.Fatalf("%d bytes, %v", len(envelope), err)
			}
			var encoded []uint32
			src := rand.NewChaCha8([32]byte{byte(seed)})
			for i, e := range b.a.Encodings {
				ones, err := e.Encode(nil, vectors[i], src)
				b.must(err)
				encoded = append(encoded, ones...)
			}
			entries, by, err := o.Open([]uint32{42}, envelope[len("before"):])
			b.must(err)
			if entries[0] != 42 || !slices.Equal(entries[1:], encoded) || len(encoded) != o.Entries() {
				t.Errorf("entries %v, want 42 and %v", entries, encoded)
			}
			if !bytes.Equal(by.Host[:], b.by.Identity.Public()) || by.Number != 4 {
				t.Errorf("made by %v", by)
			}
		}
		src := rand.NewChaCha8([32]byte{})
		for _, vectors := range [][][]float64{nil, {{0, 0}}, {{0, 0}, {0}, {0}}, {{0}, {0}}, {{0, math.NaN()}, {0}}} {
			if _, err := d.Append(nil, b.by, vectors, src); err == nil {
				t.Errorf("vectors %v are taken", vectors)
			}
		}
		if _, err := d.Append(nil, channel.Sender{Identity: b.by.Identity}, [][]float64{{0, 0}, {0}}, src); err == nil {
			t.Error("a device without credential makes an envelope")
		}
	})
}

// Each way in which an envelope can be wrong is refused with its own error, and gives no entries.
func TestEnvelopesThatAreWrongAreRefused(t *testing.T) {
	t.Parallel()
	channels(t, func(t *testing.T, c plan.Channel) {
		b := newFixture(t, c)
		vectors := [][]float64{{0, 0}, {0}}
		honest := b.envelope(1, vectors)
		plain, err := seal.NewEnvelopeOpener(b.key, domain(c), b.digest).Open(honest, nil)
		b.must(err)
		changed := func(at int) []byte {
			p := bytes.Clone(plain)
			p[at] ^= 1
			return b.content(p)
		}
		entries := len(plain) - channel.ProofSize
		large := bytes.Repeat([]byte{0xff}, entries)
		large, err = b.by.AppendProof(large, b.digest, large)
		b.must(err)
		registrar := b.identity(2)
		other := map[string]func(b *fixture){
			"another round":     func(b *fixture) { b.digest[0]++ },
			"another key":       func(b *fixture) { b.a.AnalyzerKey = b.otherKey().Public() },
			"another registrar": func(b *fixture) { b.by = b.sender(b.identity(9), b.identity(8), 10) },
			"no such device":    func(b *fixture) { b.by = b.sender(registrar, b.identity(8), 4) },
			"other channel": func(b *fixture) {
				b.a.Plan.Channel = map[plan.Channel]plan.Channel{plan.Local: plan.Central, plan.Central: plan.Local}[c]
			},
		}
		made := func(name string) []byte {
			o := newFixture(t, c)
			other[name](o)
			return o.envelope(1, vectors)
		}
		o := b.opener()
		for _, x := range []struct {
			name     string
			envelope []byte
			want     error
		}{
			{"honest", honest, nil},
			{"short", honest[:len(honest)-1], seal.ErrSize},
			{"long", append(bytes.Clone(honest), 0), seal.ErrSize},
			{"empty", nil, seal.ErrSize},
			{"another round", made("another round"), seal.ErrOpen},
			{"another key", made("another key"), seal.ErrOpen},
			{"other channel", made("other channel"), seal.ErrOpen},
			{"noise", bytes.Repeat([]byte{3}, len(honest)), seal.ErrOpen},
			{"another registrar", made("another registrar"), wire.ErrCredential},
			{"no such device", made("no such device"), wire.ErrCredential},
			{"changed entry", changed(entries - 1), seal.ErrSignature},
			{"changed number", changed(entries + 32 + 3), seal.ErrSignature},
			{"changed host", changed(entries), wire.ErrCredential},
			{"out of range", b.content(large), ErrRange},
		} {
			got, by, err := o.Open(nil, x.envelope)
			if !errors.Is(err, x.want) || err != nil && (len(got) > 0 || by != channel.Present{}) {
				t.Errorf("%s: %v, %d entries; want %v", x.name, err, len(got), x.want)
			}
		}
	})
	b := newFixture(t, plan.Shuffle)
	if _, err := NewDevice(b.a, b.digest); err == nil {
		t.Error("the channel shuffle has envelopes")
	}
	if _, err := NewOpener(b.a, b.digest, b.key, nil); err == nil {
		t.Error("the channel shuffle has envelopes to open")
	}
	b = newFixture(t, plan.Local)
	b.a.AnalyzerKey = make([]byte, 32)
	if _, err := NewDevice(b.a, b.digest); !errors.Is(err, seal.ErrKey) {
		t.Errorf("a key of low order: %v", err)
	}
}

func (b *fixture) otherKey() *seal.HPKEKey {
	k, err := seal.NewHPKEKey(bytes.Repeat([]byte{5}, 32))
	b.must(err)
	return k
}

// Every entry may have its largest value and no larger one.
func TestTheLargestEntriesAreInRange(t *testing.T) {
	t.Parallel()
	b := newFixture(t, plan.Local)
	o := b.opener()
	for i := range 4 {
		entries := []uint32{508, 503, 70_009}
		if i < 3 {
			entries[i]++
		}
		var content []byte
		for _, e := range entries {
			content = append(content, byte(e>>16), byte(e>>8), byte(e))
		}
		content, err := b.by.AppendProof(content, b.digest, content)
		b.must(err)
		got, _, err := o.Open(nil, b.content(content))
		if i == 3 && (err != nil || !slices.Equal(got, entries)) {
			t.Errorf("%v: %v, %v", entries, got, err)
		}
		if i < 3 && !errors.Is(err, ErrRange) {
			t.Errorf("%v: %v", entries, err)
		}
	}
}

// What replaces an envelope that is not counted is in range, and moves the decoded sum by no more than half a level
// from that of a null record with its mean noise.
func TestAnAbsentEnvelopeIsANullRecord(t *testing.T) {
	t.Parallel()
	channels(t, func(t *testing.T, c plan.Channel) {
		b := newFixture(t, c)
		absent := Absent(nil, b.a.Encodings)
		for _, e := range b.a.Encodings {
			p := e.Bias.Float()
			for j, at := range e.Coordinates {
				mean := -at.Offset*e.Scale + float64(e.NoiseBits)*p
				if d := float64(absent[0]) - mean; math.Abs(d) > 1 || absent[0] > uint32(e.MessagesAt(j)) {
					t.Errorf("%d for a mean of %v", absent[0], mean)
				}
				absent = absent[1:]
			}
		}
		if len(absent) > 0 {
			t.Errorf("%d entries too many", len(absent))
		}
	})
	outside := []protocol.Encoding{
		{Scale: 1, Coordinates: []protocol.Coordinate{{Offset: 2, Levels: 3}, {Offset: -9, Levels: 3}}},
	}
	if got := Absent(nil, outside); !slices.Equal(got, []uint32{0, 3}) {
		t.Errorf("where zero is out of range: %v", got)
	}
}

// The format stays what it is: stored envelopes open to the entries that are beside them. Each line of the file holds
// the channel, the number of the device, the entries, and the envelope.
func TestStoredEnvelopesOpen(t *testing.T) {
	t.Parallel()
	const path = "testdata/envelope.golden"
	if *update {
		var b strings.Builder
		for seed, c := range []plan.Channel{plan.Local, plan.Central} {
			x := newFixture(t, c)
			envelope := x.envelope(byte(seed), [][]float64{{0.3, 0.5}, {-1.25}})
			entries, by, err := x.opener().Open(nil, envelope)
			x.must(err)
			fmt.Fprintf(&b, "%s %d %d %d %d %x\n", c, by.Number, entries[0], entries[1], entries[2], envelope)
		}
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		b := newFixture(t, plan.Channel(f[0]))
		envelope, err := hex.DecodeString(f[5])
		b.must(err)
		entries, by, err := b.opener().Open(nil, envelope)
		if got := fmt.Sprintf("%d %v", by.Number, entries); err != nil ||
			got != f[1]+" ["+strings.Join(f[2:5], " ")+"]" {
			t.Errorf("%s: %s, %v", strings.Join(f[:5], " "), got, err)
		}
		lines++
	}
	if lines != 2 {
		t.Errorf("%d lines", lines)
	}
}

// FuzzOpenEnvelope opens what anyone could send, and what anyone could seal.
func FuzzOpenEnvelope(f *testing.F) {
	b := newFixture(f, plan.Local)
	honest := b.envelope(1, [][]float64{{0, 0}, {0}})
	plain, err := seal.NewEnvelopeOpener(b.key, domain(plan.Local), b.digest).Open(honest, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(honest, false)
	f.Add(plain, true)
	f.Add(plain[:len(plain)-1], true)
	f.Add([]byte{}, false)
	o := b.opener()
	f.Fuzz(func(t *testing.T, data []byte, sealed bool) {
		if sealed {
			data = newFixture(t, plan.Local).content(data)
		}
		entries, by, err := o.Open(nil, data)
		if err != nil {
			if len(entries) > 0 || by != (channel.Present{}) {
				t.Errorf("%d entries of %v, and %v", len(entries), by, err)
			}
			return
		}
		for i, entry := range entries {
			if entry > o.most[i] {
				t.Errorf("entry %d is %d, at most %d", i, entry, o.most[i])
			}
		}
		if len(entries) != o.Entries() || by.Number != 4 || !bytes.Equal(by.Host[:], b.by.Identity.Public()) {
			t.Errorf("%d entries, made by %v", len(entries), by)
		}
	})
}
