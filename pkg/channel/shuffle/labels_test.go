package shuffle

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// labelledRound has two releases whose coordinates have other numbers of messages: 3, 2 and 4.
func labelledRound() []protocol.Encoding {
	return []protocol.Encoding{
		{Scale: 1, Coordinates: []protocol.Coordinate{{Levels: 2}, {Levels: 1}}, NoiseBits: 1, Bias: protocol.BiasHalf},
		{Scale: 1, Coordinates: []protocol.Coordinate{{Levels: 4}}},
	}
}

// sealOne is a payload of a device that follows the protocol.
func sealOne(t *testing.T, key *seal.HPKEKey, encodings []protocol.Encoding) []byte {
	t.Helper()
	d, err := NewDevice(encodings, key.Public(), [32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	src := rand.NewChaCha8([32]byte{2})
	payload, err := d.Append(nil, channel.Sender{}, [][]float64{{1, 1}, {2}}, src)
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

// The labels of a round are those of its places, release by release and coordinate by coordinate. The digest is stored:
// another one is another format, in which the reports of other versions would be refused.
func TestLabelsAreThePlacesOfThePlan(t *testing.T) {
	t.Parallel()
	const stored = "22b7d14e59836055af2b036498b206373c0acc6ea4061faf20fc8c8700ef35f1"
	if got := LabelsOf(labelledRound()); got != stored {
		t.Errorf("the digest is %s, stored is %s", got, stored)
	}
	payload := make([]byte, 9*seal.BitSize)
	WriteLabels(payload, labelledRound())
	var labels [][]byte
	for message := range slices.Chunk(payload, seal.BitSize) {
		labels = append(labels, bytes.Clone(seal.Label(message)))
		clear(seal.Label(message))
	}
	want := [][]byte{{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 1}, {0, 0, 1}, {1, 0, 0}, {1, 0, 0}, {1, 0, 0}, {1, 0, 0}}
	if !reflect.DeepEqual(labels, want) || !bytes.Equal(payload, make([]byte, len(payload))) {
		t.Errorf("labels %v, want %v and nothing else", labels, want)
	}
}

// Whatever a device changes of the labels of its report, in whatever order it puts its messages, and however many it
// leaves out or adds, the report is refused: only the plan's labels in the plan's order pass.
func TestOnlyThePlansLabelsPass(t *testing.T) {
	t.Parallel()
	key, err := seal.GenerateHPKE()
	if err != nil {
		t.Fatal(err)
	}
	good, want := sealOne(t, key, labelledRound()), LabelsOf(labelledRound())
	if err := CheckLabels(good, want); err != nil {
		t.Fatal(err)
	}
	refuse := func(what string, payload []byte) {
		t.Helper()
		if err := CheckLabels(payload, want); !errors.Is(err, wire.ErrLabels) {
			t.Errorf("%s: %v, want ErrLabels", what, err)
		}
	}
	for i := range 9 {
		for bit := range 8 * seal.LabelSize {
			bad := bytes.Clone(good)
			seal.Label(bad[i*seal.BitSize:])[bit/8] ^= 1 << (bit % 8)
			refuse("a changed label", bad)
		}
	}
	messages := slices.Collect(slices.Chunk(good, seal.BitSize))
	swapped := slices.Clone(messages)
	swapped[0], swapped[8] = swapped[8], swapped[0]
	refuse("another order", slices.Concat(swapped...))
	refuse("a message less", good[seal.BitSize:])
	refuse("a message more", append(bytes.Clone(good), good[8*seal.BitSize:]...))
	refuse("a byte less", good[:len(good)-1])
	refuse("a byte more", append(bytes.Clone(good), 0))
	refuse("nothing", nil)
	all := bytes.Clone(good)
	for message := range slices.Chunk(all, seal.BitSize) {
		copy(seal.Label(message), []byte{0, 0, 1})
	}
	refuse("all on one coordinate", all)
}

// A round of labelled messages is complete if it has what reports and the shuffler make for each coordinate, and no
// message more or less, whether or not they open. A label that was changed on the way leaves two coordinates
// incomplete; two that were exchanged leave none, and neither message opens, so that no sum is larger than if both had
// been dropped.
func TestAChangedLabelIsSeenOrCountsAsZero(t *testing.T) {
	t.Parallel()
	key, err := seal.GenerateHPKE()
	if err != nil {
		t.Fatal(err)
	}
	encodings, digest := labelledRound(), [32]byte{1}
	sealer, err := seal.NewBitSealer(key.Public(), digest)
	if err != nil {
		t.Fatal(err)
	}
	var messages []byte
	for i, e := range encodings {
		for j := range e.Coordinates {
			n := 2*e.MessagesAt(j) + 5*(1-i) // two reports of ones, and 5 of noise in the first release
			if messages, err = sealer.AppendSealRun(messages, uint8(i), uint16(j), n, n); err != nil {
				t.Fatal(err)
			}
		}
	}
	count := func(change func(at func(i int) []byte)) *Tally {
		all := bytes.Clone(messages)
		if change != nil {
			change(func(i int) []byte { return seal.Label(all[i*seal.BitSize:]) })
		}
		tally := NewTally(encodings)
		tally.Open(seal.NewBitOpener(key, digest), all)
		return tally
	}
	noise := []uint64{5, 0}
	ones := func(tally *Tally) [][]uint64 {
		all, _ := tally.Counts(2, noise)
		return all
	}
	last := len(messages)/seal.BitSize - 1
	if tally := count(nil); tally.Complete(2, noise) != nil || !reflect.DeepEqual(ones(tally),
		[][]uint64{{11, 9}, {8}}) {
		t.Errorf("untouched: %v, %v", tally.Complete(2, noise), ones(tally))
	}
	for _, x := range []struct {
		reports uint64
		noise   []uint64
	}{{1, noise}, {3, noise}, {2, []uint64{4, 0}}, {2, []uint64{5, 1}}} {
		if err := count(nil).Complete(x.reports, x.noise); !errors.Is(err, ErrIncomplete) {
			t.Errorf("%+v: %v, want ErrIncomplete", x, err)
		}
	}
	for name, label := range map[string][]byte{"another coordinate": {0, 0, 1}, "another release": {1, 0, 0},
		"no coordinate of the round": {0, 0, 2}, "no release of the round": {2, 0, 0}} {
		tally := count(func(at func(i int) []byte) { copy(at(0), label) })
		if err := tally.Complete(2, noise); !errors.Is(err, ErrIncomplete) {
			t.Errorf("%s: %v, want ErrIncomplete", name, err)
		}
		if got := ones(tally); got[0][0] != 10 || got[0][1] != 9 || got[1][0] != 8 {
			t.Errorf("%s: %v", name, got)
		}
	}
	more := count(nil) // all that there must be, and a message besides
	stray, err := sealer.AppendSeal(nil, 1, 1, true)
	if err != nil {
		t.Fatal(err)
	}
	more.Open(seal.NewBitOpener(key, digest), stray)
	if err := more.Complete(2, noise); !errors.Is(err, ErrIncomplete) {
		t.Errorf("a message more, of no coordinate: %v, want ErrIncomplete", err)
	}
	exchanged := count(func(at func(i int) []byte) { copy(at(0), []byte{1, 0, 0}); copy(at(last), []byte{0, 0, 0}) })
	if err := exchanged.Complete(2, noise); err != nil || exchanged.Undecryptable != 2 ||
		!reflect.DeepEqual(ones(exchanged), [][]uint64{{10, 9}, {7}}) {
		t.Errorf("exchanged: %v, %+v", err, exchanged)
	}
}
