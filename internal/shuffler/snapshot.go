package shuffler

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	mathbits "math/bits"
	"slices"
	"time"

	"github.com/riffle-dp/riffle/pkg/wire"
)

// A snapshot stands in the journal for all events before the opening of an epoch. What is known of the epochs before is
// then who was in them, how their rounds ended, and nothing of slots, times and reports: a snapshot holds less than the
// events did, sorted by hosts' keys, and so no order in which anybody came.

const (
	// snapshotVersion is the form of a snapshot's base.
	snapshotVersion = 1
	// compactAfter is how many bytes of events are worth a snapshot: some 5000 devices of a cohort. A snapshot is
	// written when the events behind the last one are more than that, and more than the snapshot: so all snapshots
	// together cost no more writing than the events, and the journal holds at most twice its state, this much, and one
	// epoch.
	compactAfter = 1 << 20
)

// Snapshot is what the events before an epoch came to. It is the journal's first entry, or there is none.
type Snapshot struct {
	Version int             `json:"version"`
	Sum     []byte          `json:"sum"` // SHA-256 of the base
	Base    json.RawMessage `json:"base"`

	rounds []finished // of the base, once it is applied
}

// base is the state without its latest epoch. Sets of devices are as encodeSet writes them.
type base struct {
	At         int64       `json:"at_ms,omitempty"` // what Clock tells
	Keys       *Keys       `json:"keys,omitempty"`
	Begun      bool        `json:"begun,omitempty"`
	Terms      *PanelTerms `json:"terms,omitempty"`
	Enrolled   []byte      `json:"enrolled,omitempty"`
	Registered []byte      `json:"registered,omitempty"`
	Times      [][]byte    `json:"times,omitempty"`
	Recent     []served    `json:"recent,omitempty"`
	Wishes     []byte      `json:"wishes,omitempty"` // of the epoch before, in ascending order, eight bytes each, big-endian
	Rounds     []ended     `json:"rounds,omitempty"` // for people, and to hold against the broker
}

// served are the devices of one panel.
type served struct {
	Epoch   uint64 `json:"epoch"`
	Devices []byte `json:"devices"`
}

// ended is a round that is over, as finished has it.
type ended struct {
	Epoch    uint64       `json:"epoch"`
	Round    uint32       `json:"round,omitempty"`
	Outcome  wire.Outcome `json:"outcome"`
	Enrolled int          `json:"enrolled"`
	Reports  int          `json:"reports"`
	Messages int          `json:"messages"`
	Left     uint64       `json:"left,omitempty"`
}

// snapshot describes the state without its latest epoch, which must just have been opened, and these rounds.
func (s *State) snapshot(rounds []finished) *Event {
	b := base{
		Begun: s.begun, Terms: s.terms, Enrolled: encodeSet(s.earlier()), Registered: encodeSet(s.registered.words()),
	}
	if !s.clock.IsZero() {
		b.At = s.clock.UnixMilli()
	}
	if s.keys.Number > 0 {
		b.Keys = &s.keys
	}
	for _, set := range s.history.times {
		b.Times = append(b.Times, encodeSet(set.words()))
	}
	for _, p := range s.history.recent {
		b.Recent = append(b.Recent, served{p.epoch, encodeSet(p.devices.words())})
	}
	for _, number := range slices.Sorted(maps.Keys(s.wishes[1])) {
		b.Wishes = binary.BigEndian.AppendUint64(b.Wishes, number)
	}
	for _, r := range rounds {
		b.Rounds = append(b.Rounds, ended{r.epoch, r.round, r.outcome, r.enrolled, r.reports, r.messages, r.left})
	}
	text, err := json.Marshal(b)
	if err != nil { // no field of a base can fail to marshal
		panic(err)
	}
	sum := sha256.Sum256(text)
	return &Event{Snapshot: &Snapshot{Version: snapshotVersion, Sum: sum[:], Base: text}}
}

// applySnapshot makes the state what the snapshot says. It must be the first event.
func (s *State) applySnapshot(n *Snapshot) error {
	fail := func(err error) error { return fmt.Errorf("snapshot event: %w", err) }
	if sum := sha256.Sum256(n.Base); !bytes.Equal(sum[:], n.Sum) {
		return fail(errors.New("it is damaged: its checksum is another. Restore the newest copy of the state folder"))
	}
	if n.Version != snapshotVersion {
		return fail(fmt.Errorf("version %d, and this program reads version %d: %s", n.Version, snapshotVersion, newerVersion))
	}
	if s.epoch != nil || s.begun || s.count > 0 || !s.clock.IsZero() || s.keys.Number > 0 || s.hosts.keys.len() > 0 {
		return fail(errors.New("events stand before it"))
	}
	var b base
	d := json.NewDecoder(bytes.NewReader(n.Base))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		return fail(unknownField(err))
	}
	if b.Terms != nil && b.Terms.Records < 1 {
		return fail(errors.New("panels in which a device may never be"))
	}
	if b.At != 0 {
		s.clock = time.UnixMilli(b.At)
	}
	if b.Keys != nil {
		s.keys = *b.Keys
	}
	s.begun, s.terms = b.Begun, b.Terms
	err := decodeSet(b.Enrolled, func(host [32]byte, at, word uint32) {
		s.devices[deviceKey{s.hosts.add(host), at}] = word
		s.arrived += mathbits.OnesCount32(word)
	})
	if err == nil {
		var set devices
		set, err = devicesOf(b.Registered)
		set.each(s.enlist)
	}
	for _, text := range b.Times {
		var set devices
		if err == nil {
			set, err = devicesOf(text)
		}
		s.history.times = append(s.history.times, set)
	}
	for _, p := range b.Recent {
		var set devices
		if err == nil {
			set, err = devicesOf(p.Devices)
		}
		s.history.recent = append(s.history.recent, panelOf{p.Epoch, set})
	}
	if err != nil {
		return fail(err)
	}
	if len(b.Wishes)%8 != 0 {
		return fail(errors.New("its wishes are not whole numbers"))
	}
	for number := range slices.Chunk(b.Wishes, 8) {
		if s.wishes[0] == nil {
			s.wishes[0] = map[uint64]struct{}{}
		}
		s.wishes[0][binary.BigEndian.Uint64(number)] = struct{}{}
	}
	n.rounds = nil
	for _, r := range b.Rounds {
		n.rounds = append(n.rounds, finished{r.Epoch, r.Round, r.Outcome, r.Enrolled, r.Reports, r.Messages, r.Left})
	}
	return nil
}

// word is 32 devices of one host that follow each other, as a bit each. at is the number of the first by 32.
type word struct {
	host [32]byte
	at   uint32
	bits uint32
}

// earlier are the devices that were enrolled as they arrived in the epochs before the latest.
func (s *State) earlier() []word {
	all := make([]word, 0, len(s.devices))
	for key, bits := range s.devices {
		all = append(all, word{*s.hosts.keys.at(int(key.host)), key.number, bits})
	}
	return all
}

// encodeSet writes a set of devices: of each host, in ascending order of keys, its key, the number of its words, and of
// each word in ascending order how far it is behind the one before, and its bits. Numbers are unsigned varints, bits
// four bytes, big-endian. It changes the order of the words.
func encodeSet(all []word) (b []byte) {
	slices.SortFunc(all, func(a, b word) int {
		return cmp.Or(bytes.Compare(a.host[:], b.host[:]), cmp.Compare(a.at, b.at))
	})
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].host == all[0].host {
			n++
		}
		b = append(b, all[0].host[:]...)
		b = binary.AppendUvarint(b, uint64(n))
		next := uint32(0)
		for _, w := range all[:n] {
			b = binary.AppendUvarint(b, uint64(w.at-next))
			b = binary.BigEndian.AppendUint32(b, w.bits)
			next = w.at + 1
		}
		all = all[n:]
	}
	return b
}

// maxWord is the largest number of a word.
const maxWord = 1<<32/wordBits - 1

var errSet = errors.New("a set of devices is not as this program writes it")

// decodeSet reads what encodeSet wrote, and nothing else.
func decodeSet(b []byte, f func(host [32]byte, at, bits uint32)) error {
	var last []byte
	number := func() (n uint64, ok bool) {
		n, width := binary.Uvarint(b)
		if width <= 0 || width > 1 && b[width-1] == 0 {
			return 0, false
		}
		b = b[width:]
		return n, true
	}
	for len(b) > 0 {
		if len(b) < 32 || last != nil && bytes.Compare(last, b[:32]) >= 0 {
			return errSet
		}
		last = b[:32]
		b = b[32:]
		n, ok := number()
		if !ok || n == 0 {
			return errSet
		}
		for next := uint64(0); n > 0; n-- {
			behind, ok := number()
			if !ok || behind > maxWord || next+behind > maxWord || len(b) < 4 {
				return errSet
			}
			bits := binary.BigEndian.Uint32(b)
			if b = b[4:]; bits == 0 {
				return errSet
			}
			f([32]byte(last), uint32(next+behind), bits)
			next += behind + 1
		}
	}
	return nil
}

// words are the set's devices.
func (d devices) words() (all []word) {
	for host, pages := range d {
		for at, p := range pages {
			for i, both := range p {
				for half := range uint32(2) {
					if bits := uint32(both >> (wordBits * half)); bits != 0 {
						all = append(all, word{host, at*(pageBits/wordBits) + uint32(2*i) + half, bits})
					}
				}
			}
		}
	}
	return all
}

// devicesOf reads a set that encodeSet wrote.
func devicesOf(b []byte) (devices, error) {
	d := devices{}
	err := decodeSet(b, func(host [32]byte, at, word uint32) {
		for ; word != 0; word &= word - 1 {
			d.add(DeviceID{host, at*wordBits + uint32(mathbits.TrailingZeros32(word))})
		}
	})
	return d, err
}
