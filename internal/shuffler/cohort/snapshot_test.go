package cohort

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/riffle-dp/riffle/pkg/wire"
)

// A set of devices is read as what was written, and nothing else is read as it: no two texts are one set.
func TestASetOfDevicesIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		set, model := newDevices(), map[DeviceID]bool{}
		for range rapid.IntRange(0, 40).Draw(rt, "devices") {
			number := rapid.OneOf(rapid.Uint32Range(0, 70), rapid.Uint32()).Draw(rt, "number")
			id := DeviceID{Host: hostKey(rapid.Uint64Range(0, 5).Draw(rt, "host")), Number: number}
			set.add(id)
			model[id] = true
		}
		b := encodeSet(set.words())
		again, err := devicesOf(b)
		count := 0
		again.each(func(DeviceID) { count++ })
		if err != nil || !bytes.Equal(encodeSet(again.words()), b) || count != len(model) {
			rt.Fatalf("%d devices of %d, %v", count, len(model), err)
		}
		if len(b) > 0 {
			at := rapid.IntRange(0, len(b)-1).Draw(rt, "byte")
			b[at] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
			if other, err := devicesOf(b); err == nil && !bytes.Equal(encodeSet(other.words()), b) {
				rt.Fatalf("%x is read, and is not what is written of it", b)
			}
		}
	})
}

// ordered is what the devices of two cohorts leave in a snapshot, if they enrol in this order.
func ordered(t *testing.T, hosts []uint64, numbers []uint32) []byte {
	t.Helper()
	s := newScript(t, 2)
	for epoch := range uint64(2) {
		d := digest(byte(epoch + 1))
		s.must(s.open(announcement(epoch+1, 0, uint32(len(hosts)), 2, 1), d))
		for i := range hosts {
			host := hosts[i]
			id := DeviceID{Host: hostKey(host), Number: numbers[i] + uint32(epoch)*100}
			_, _, ev, err := s.state.Enrol(id, nil, epoch+1, d, s.now)
			s.must(err)
			s.apply(ev)
		}
		s.now = s.now.Add(time.Hour)
		s.commit()
		s.finish(0)
	}
	s.must(s.open(announcement(3, 0, 2, 2, 1), digest(3)))
	return s.short[0]
}

// A snapshot holds who was in the cohorts before, and nothing of the order in which they came.
func TestASnapshotHoldsNoOrder(t *testing.T) {
	one := ordered(t, []uint64{1, 2, 1, 3}, []uint32{5, 6, 7, 8})
	other := ordered(t, []uint64{3, 1, 2, 1}, []uint32{8, 7, 6, 5})
	if !bytes.Equal(one, other) {
		t.Errorf("the order of arrival is in a snapshot:\n%s\n%s", one, other)
	}
}

// A snapshot in which one bit is not what was written is never replayed, and one that a later version wrote says so.
func TestADamagedSnapshotIsNotReplayed(t *testing.T) {
	whole := ordered(t, []uint64{1, 2}, []uint32{5, 6})
	good, err := DecodeEvent(whole)
	if err != nil || NewState(Admission{}).Apply(good) != nil {
		t.Fatal(err)
	}
	for i := range whole {
		for bit := range 8 {
			b := bytes.Clone(whole)
			b[i] ^= 1 << bit
			ev, err := DecodeEvent(b)
			if err != nil || ev.Snapshot == nil {
				continue
			}
			again := NewState(Admission{})
			err = again.Apply(ev)
			again.requests.turn() // as at the opening of the epoch
			if err == nil && !bytes.Equal(again.Snapshot().Snapshot.Base, good.Snapshot.Base) {
				t.Fatalf("byte %d, bit %d: replayed: %s", i, bit, b)
			}
		}
	}
	later := *good.Snapshot
	later.Version++
	for name, entry := range map[string][]byte{
		"version": (&Event{Snapshot: &later}).Encode(), "kind": []byte(`{"compacted":{}}`),
		"field": []byte(`{"keys":{"number":1,"digest":"","more":1}}`),
	} {
		ev, err := DecodeEvent(entry)
		if err == nil {
			err = NewState(Admission{}).Apply(ev)
		}
		if err == nil || !strings.Contains(err.Error(), "newer version of Riffle") {
			t.Errorf("%s of a later version: %v", name, err)
		}
	}
	state := NewState(Admission{})
	if err := errors.Join(state.Apply(good), state.Apply(good)); err == nil {
		t.Error("two snapshots in one journal")
	}
}

// Beyond the capacity nobody is let in, those that are known keep their places, and a restart remembers how many they
// are, by the whole journal and by a snapshot.
func TestBeyondTheCapacityNobodyIsLetIn(t *testing.T) {
	s := newScript(t, 2)
	s.state = NewState(Admission{Minimum: 2, Devices: 5})
	s.must(s.open(announcement(1, 0, 3, 2, 1), digest(1)))
	for n := range 3 {
		_, _, err := s.enrol(n, 1, digest(1))
		s.must(err)
	}
	s.now = s.now.Add(time.Hour)
	s.commit()
	s.finish(0)
	s.must(s.open(announcement(2, 0, 3, 2, 1), digest(2)))
	for n := range 2 {
		_, _, err := s.enrol(10+n, 2, digest(2))
		s.must(err)
	}
	_, _, err := s.enrol(20, 2, digest(2))
	s.refused(err, wire.RefusalCapacity)
	if slot, _, err := s.enrol(11, 2, digest(2)); err != nil || slot != 1 {
		t.Errorf("a device that has a slot: %d, %v", slot, err)
	}
	_, _, err = s.enrol(1, 2, digest(2))
	s.refused(err, wire.RefusalAlreadyEnrolled)
	for _, journal := range [][][]byte{s.journal, s.short} {
		again := NewState(Admission{Minimum: 2, Devices: 5})
		for _, b := range journal {
			ev, err := DecodeEvent(b)
			s.must(err)
			s.must(again.Apply(ev))
		}
		_, _, _, err := again.Enrol(device(20), nil, 2, digest(2), s.now)
		s.refused(err, wire.RefusalCapacity)
	}
	panels := NewState(Admission{Devices: 2})
	for n := range 3 {
		_, ev, err := panels.Register(device(n), nil)
		if n == 2 {
			s.refused(err, wire.RefusalCapacity)
			continue
		}
		s.must(err)
		s.must(panels.Apply(ev))
	}
	if held, _, err := panels.Register(device(1), nil); !held || err != nil {
		t.Errorf("a registered device: %v, %v", held, err)
	}
}

// What an epoch of 1000 devices leaves in the journal: as events, and once a snapshot replaces them.
func TestWhatAnEpochLeaves(t *testing.T) {
	for name, alone := range map[string]bool{"of one host": false, "of as many hosts": true} {
		s := newScript(t, 2)
		size := func() (events, snapshot int) {
			for _, b := range s.journal {
				events += len(b)
			}
			return events, len(s.state.Snapshot().Encode())
		}
		const people, epochs = 1000, 4
		for epoch := range uint64(epochs) {
			d := digest(byte(epoch + 1))
			s.must(s.open(announcement(epoch+1, 0, people, 2, 1), d))
			for i := range people {
				id := device(int(epoch)*people + i)
				if alone {
					id.Host, id.Number = [32]byte{byte(i), byte(i >> 8), byte(epoch)}, 0
				}
				slot, _, ev, err := s.state.Enrol(id, nil, epoch+1, d, s.now)
				s.must(err)
				s.apply(ev)
				ev, err = s.state.Admit(id, epoch+1, 0, slot, d, digest(byte(i)), uint64(epoch)*people+uint64(i))
				s.must(err)
				s.apply(ev)
			}
			s.commit()
			s.finish(0)
		}
		s.must(s.open(announcement(epochs+1, 0, people, 2, 1), digest(9)))
		events, snapshot := size()
		t.Logf("%s: %.0f bytes of events a device, %.2f bytes of the snapshot", name,
			float64(events)/(people*epochs), float64(snapshot)/(people*epochs))
		if limit := map[bool]int{false: 4, true: 60}[alone]; snapshot > limit*people*epochs {
			t.Errorf("%s: a snapshot of %d bytes", name, snapshot)
		}
		var b base
		if err := json.Unmarshal(s.state.Snapshot().Snapshot.Base, &b); err != nil || len(b.Rounds) != epochs {
			t.Errorf("%s: %d rounds, %v", name, len(b.Rounds), err)
		}
	}
}

// Where hosts have a share, no host can register so many devices that nobody else's are remembered any more: not even
// one with a credential for all numbers, and not after a snapshot.
func TestNoHostFillsTheRoomOfAllOthers(t *testing.T) {
	for name, c := range map[string]struct {
		share float64
		most  int
	}{"a half": {0.5, 5}, "no limit": {1, 10}} {
		a := Admission{Devices: 10, SponsorShare: c.share}
		state := NewState(a)
		hostile, honest := DeviceID{Host: hostKey(1)}, DeviceID{Host: hostKey(2), Number: 7}
		var err error
		for n := 0; err == nil; n++ {
			if n == 2 { // by a snapshot
				again := NewState(a)
				if err := again.Apply(state.Snapshot()); err != nil {
					t.Fatal(err)
				}
				state = again
			}
			var ev *Event
			hostile.Number = uint32(n) << 20
			if _, ev, err = state.Register(hostile, nil); err == nil {
				err = state.Apply(ev)
			}
		}
		if state.count != c.most {
			t.Errorf("%s: %d devices of one host, %v", name, state.count, err)
		}
		_, _, err = state.Register(honest, nil)
		if blocked := err != nil; blocked != (c.share == 1) {
			t.Errorf("%s: somebody else's device: %v", name, err)
		}
	}
}

// An epoch whose minimum cohort there is no room for is not opened: it would be destroyed at once, and the next one
// too, until none is left. With more room it opens.
func TestAnEpochWithoutRoomIsLeftForLater(t *testing.T) {
	s := newScript(t, 2)
	s.state = NewState(Admission{Minimum: 2, Devices: 4})
	s.must(s.open(announcement(1, 0, 3, 2, 1), digest(1)))
	for n := range 3 {
		_, _, err := s.enrol(n, 1, digest(1))
		s.must(err)
	}
	s.now = s.now.Add(time.Hour)
	s.commit()
	s.finish(0)
	s.refused(s.open(announcement(2, 0, 3, 2, 1), digest(2)), wire.RefusalCapacity)
	again := NewState(Admission{Minimum: 2, Devices: 5})
	for _, b := range s.journal {
		ev, err := DecodeEvent(b)
		s.must(err)
		s.must(again.Apply(ev))
	}
	s.state = again
	s.must(s.open(announcement(2, 0, 3, 2, 1), digest(2)))
}
