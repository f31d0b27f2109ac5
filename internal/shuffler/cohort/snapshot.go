package cohort

import (
	"bytes"
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

// In the journal a snapshot replaces all events before the opening of an epoch. What is known of the epochs before is
// then who was in them, how their rounds ended, and nothing of slots, times and reports: a snapshot holds less than the
// events did, sorted by hosts' keys, and so no order in which anybody came.

const (
	// snapshotVersion is the form of a snapshot's base.
	snapshotVersion = 1
	// CompactAfter is how many bytes of events are worth a snapshot: some 5000 devices of a cohort. A snapshot is
	// written when the events behind the last one are more than that, and more than the snapshot: so all snapshots
	// together cost no more writing than the events, and the journal holds at most twice its state, this much, and one
	// epoch.
	CompactAfter = 1 << 20
)

// Snapshot is what the events before an epoch came to. It is the journal's first entry, or there is none.
type Snapshot struct {
	Version int             `json:"version"`
	Sum     []byte          `json:"sum"` // SHA-256 of the base
	Base    json.RawMessage `json:"base"`
}

// base is the state without its latest epoch. Sets of devices are as encodeSet writes them.
type base struct {
	At         int64       `json:"at_ms,omitempty"` // what Clock tells
	Keys       *Keys       `json:"keys,omitempty"`
	Begun      bool        `json:"begun,omitempty"`
	Terms      *PanelTerms `json:"terms,omitempty"`
	Enrolled   []byte      `json:"enrolled,omitempty"`
	Marks      []byte      `json:"marks,omitempty"` // of installations that were enrolled, ascending
	Issuers    []issuing   `json:"issuers,omitempty"`
	Registered []byte      `json:"registered,omitempty"`
	Times      [][]byte    `json:"times,omitempty"`
	Recent     []served    `json:"recent,omitempty"`
	// of the epoch before, in ascending order, eight bytes each, big-endian
	Requests []byte  `json:"wishes,omitempty"`
	Rounds   []Ended `json:"rounds,omitempty"` // for people, and to hold against the broker
}

// issuing is what an issuer let in.
type issuing struct {
	Key        []byte `json:"key"`
	Admitted   int    `json:"admitted"`
	Registered []byte `json:"registered,omitempty"` // keys of installations, ascending
}

// served are the devices of one panel.
type served struct {
	Epoch   uint64 `json:"epoch"`
	Devices []byte `json:"devices"`
}

// Ended is a round that is over.
type Ended struct {
	Epoch    uint64       `json:"epoch"`
	Round    uint32       `json:"round,omitempty"`
	Outcome  wire.Outcome `json:"outcome"`
	Enrolled int          `json:"enrolled"`
	Reports  int          `json:"reports"`
	Messages int          `json:"messages"`       // of one report
	Left     uint64       `json:"left,omitempty"` // messages that can have left before it was destroyed, at most
}

// Snapshot describes the state without its latest epoch, which must just have been opened.
func (s *State) Snapshot() *Event {
	b := base{
		Begun: s.begun, Terms: s.terms, Enrolled: encodeSet(s.earlier()), Registered: encodeSet(s.registered.words()),
		Marks: s.marks.bytes(),
	}
	for _, by := range s.issuers.all {
		b.Issuers = append(b.Issuers, issuing{by.key[:], by.admitted, by.pooled.bytes()})
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
	for _, number := range slices.Sorted(maps.Keys(s.requests[1])) {
		b.Requests = binary.BigEndian.AppendUint64(b.Requests, number)
	}
	b.Rounds = s.over
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
		return fail(fmt.Errorf("version %d, and this program reads version %d: %s", n.Version, snapshotVersion,
			newerVersion))
	}
	if s.epoch != nil || s.begun || s.count > 0 || !s.clock.IsZero() || s.keys.Number > 0 || s.hosts.keys.len() > 0 {
		return fail(errors.New("events are before it"))
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
	if err == nil {
		s.marks, err = keysetOf(markSize, b.Marks)
		s.arrived += s.marks.n
	}
	for _, of := range b.Issuers {
		if err == nil {
			err = enterIssued(&s.registry, of)
		}
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
	if len(b.Requests)%8 != 0 {
		return fail(errors.New("its requests are not whole numbers"))
	}
	for number := range slices.Chunk(b.Requests, 8) {
		if s.requests[0] == nil {
			s.requests[0] = map[uint64]struct{}{}
		}
		s.requests[0][binary.BigEndian.Uint64(number)] = struct{}{}
	}
	s.over = b.Rounds
	return nil
}

// enterIssued enters what an issuer let in.
func enterIssued(s *registry, of issuing) error {
	by, err := issuerOf(of.Key)
	if err != nil || by == nil || of.Admitted < 1 || s.issuers.find(*by) != nil {
		return errSet
	}
	s.issuers.admit(*by).admitted = of.Admitted
	set, err := keysetOf(32, of.Registered)
	if err != nil {
		return err
	}
	set.each(func(key []byte) { s.enlistIssued(*by, [32]byte(key)) })
	return nil
}
