package cohort

import (
	"encoding/binary"
	"runtime"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
	"pgregory.net/rapid"
)

// certified is an issuer that may let so many installations in.
func certified(key byte, installations uint32) *wire.IssuerCertificate {
	k := [32]byte{key}
	return &wire.IssuerCertificate{Key: k[:], First: 1, Last: 99, Installations: installations}
}

// installation is one of a few, whose keys have a beginning of their own.
func installation(n int) DeviceID {
	id := DeviceID{}
	binary.BigEndian.PutUint64(id.Host[:], uint64(n+1)*0x9e3779b97f4a7c15)
	return id
}

func (s *script) installs(n int, by *wire.IssuerCertificate, epoch uint64) (uint32, error) {
	slot, _, ev, err := s.state.Enrol(installation(n), by, epoch, digest(byte(epoch)), s.now)
	if ev != nil {
		ev.Enrolled.Nonce = uint32(n + 1)
	}
	s.apply(ev)
	return slot, err
}

// destroy puts the open epoch behind.
func (s *script) destroy() {
	s.apply(&Event{Committed: &Committed{Outcome: wire.Destroyed}})
	s.finish(0)
}

// An issuer lets in as many installations as its certificate says over all epochs, each for one cohort, whoever asks
// again and whatever is replayed. A later certificate of the key may say more.
func TestAnIssuerLetsInAsManyAsItsCertificateSays(t *testing.T) {
	s := newScript(t, 1)
	small, large, other := certified(7, 3), certified(7, 5), certified(8, 1)
	s.must(s.open(announcement(1, 0, 10, 1, 1), digest(1)))
	for n := range 2 {
		_, err := s.installs(n, small, 1)
		s.must(err)
	}
	slot, err := s.installs(1, small, 1) // asks again: the same slot
	s.must(err)
	if slot != 1 || s.state.issuers.all[0].admitted != 2 {
		t.Errorf("slot %d, %d installations", slot, s.state.issuers.all[0].admitted)
	}
	slot, err = s.installs(1, other, 1) // renewed by another issuer: the same place
	s.must(err)
	if slot != 1 || len(s.state.issuers.all) != 1 {
		t.Errorf("slot %d, %d issuers", slot, len(s.state.issuers.all))
	}
	s.reopened()
	s.destroy()

	s.must(s.open(announcement(2, 0, 10, 1, 1), digest(2)))
	s.reopened()
	for _, by := range []*wire.IssuerCertificate{small, other, nil} {
		_, err = s.installs(0, by, 2)
		s.refused(err, wire.RefusalAlreadyEnrolled)
	}
	_, err = s.installs(2, small, 2)
	s.must(err)
	_, err = s.installs(3, small, 2)
	s.refused(err, wire.RefusalIssuerFull)
	_, err = s.installs(3, other, 2)
	s.must(err)
	_, err = s.installs(4, other, 2)
	s.refused(err, wire.RefusalIssuerFull)
	_, err = s.installs(4, large, 2)
	s.must(err)
	if slot, err = s.installs(2, small, 2); err != nil || slot != 0 { // who is in is told so, also of a full issuer
		t.Errorf("slot %d, %v", slot, err)
	}
	s.reopened()
}

// A host that the registrar let in and an issuer too is one host: no device has a second place, in one epoch or
// another.
func TestAHostIsLetInByOneOfTwo(t *testing.T) {
	by := certified(7, 9)
	s := newScript(t, 1)
	s.must(s.open(announcement(1, 0, 10, 1, 1), digest(1)))
	enrol := func(n int, number uint32, by *wire.IssuerCertificate, epoch uint64) (uint32, error) {
		id := installation(n)
		id.Number = number
		slot, _, ev, err := s.state.Enrol(id, by, epoch, digest(byte(epoch)), s.now)
		s.apply(ev)
		return slot, err
	}
	for i, c := range []struct {
		n      int
		number uint32
		by     *wire.IssuerCertificate
		slot   uint32
	}{
		{0, 0, nil, 0}, {0, 0, by, 0}, {1, 0, by, 1}, {1, 0, nil, 1}, {1, 3, nil, 2}, {1, 0, by, 1}, {0, 3, nil, 3},
	} {
		if slot, err := enrol(c.n, c.number, c.by, 1); err != nil || slot != c.slot {
			t.Errorf("%d: slot %d, %v, want %d", i, slot, err, c.slot)
		}
	}
	s.destroy()
	s.must(s.open(announcement(2, 0, 10, 1, 1), digest(2)))
	s.reopened()
	for n := range 2 {
		for _, number := range []uint32{0, 3} {
			for _, by := range []*wire.IssuerCertificate{nil, by} {
				_, err := enrol(n, number, by, 2)
				s.refused(err, wire.RefusalAlreadyEnrolled)
			}
		}
	}
	if got := CoveredBy(s.state)[installation(1).Host]; got != 4 {
		t.Errorf("the registrar's credential covered %d devices", got)
	}
}

// The share of a cohort is one of an issuer, however many installations hold it, and one of each host that the
// registrar let in.
func TestSlotsOfOneIssuer(t *testing.T) {
	s := newScript(t, 1)
	s.state = NewState(Admission{Minimum: 1, SponsorShare: 0.3})
	s.must(s.open(announcement(1, 0, 10, 1, 1), digest(1)))
	for n := range 3 {
		_, err := s.installs(n, certified(7, 99), 1)
		s.must(err)
	}
	_, err := s.installs(3, certified(7, 99), 1)
	s.refused(err, wire.RefusalSponsorShare)
	for n := range 3 {
		_, err := s.installs(3+n, certified(8, 99), 1)
		s.must(err)
	}
	for n := range 4 { // each of these hosts stands for itself
		_, err := s.installs(6+n, nil, 1)
		s.must(err)
	}
	if f, _ := s.state.Filling(); f.Largest != 3 {
		t.Errorf("%+v", f)
	}
	s.reopened()
}

// Of panels, too: an issuer registers as many as its certificate says, no more of them are in a pool than its share,
// and what is known of them outlives snapshots.
func TestInstallationsInPanels(t *testing.T) {
	for _, share := range []float64{1, 0.5} {
		s := newScript(t, 1)
		s.state = NewState(Admission{Minimum: 1, SponsorShare: share, Devices: 1000})
		by, other := certified(7, 12), certified(8, 4)
		register := func(n int, by *wire.IssuerCertificate) error {
			_, ev, err := s.state.Register(installation(n), by)
			s.apply(ev)
			return err
		}
		for n := range 12 {
			s.must(register(n, by))
		}
		s.refused(register(12, by), wire.RefusalIssuerFull)
		for n := range 4 {
			s.must(register(20+n, other))
		}
		for n := range 4 {
			s.must(register(30+n, nil))
		}
		s.must(register(0, other)) // registered: told so
		s.must(register(0, nil))
		if s.state.Registered() != 20 || s.state.of[sponsor{7}] != 12 || s.state.of[sponsor{8}] != 4 {
			t.Errorf("%d registered: %v", s.state.Registered(), s.state.of)
		}
		s.must(s.open(panelled(1, 8, 1, plan.Panel{Registered: 16}, 2, 0), digest(1)))
		s.reopened()
		if pooled, want := s.state.Pool().Devices, map[float64]int{1: 20, 0.5: 16}[share]; pooled != want {
			t.Errorf("share %v: a pool of %d, want %d", share, pooled, want)
		}
		s.draw()
		s.reopened()
		held := 0
		for _, id := range s.members() {
			if i := s.state.issuers.registeredBy(id.Host); i != nil && i.key == (sponsor{7}) {
				held++
			}
			if slot, _, why := s.asks(id, 1, digest(1)); why != wire.NoRefusal {
				t.Errorf("slot %d: %v", slot, why)
			}
		}
		if s.state.epoch.issued[sponsor{7}] != held {
			t.Errorf("%d slots of the issuer, counted %d", held, s.state.epoch.issued[sponsor{7}])
		}
		if share < 1 {
			last := 0 // who is not in the pool for the share
			for n := range 12 {
				if _, _, why := s.asks(installation(n), 1, digest(1)); why == wire.RefusalSponsorShare {
					last++
				}
			}
			if last != 4 {
				t.Errorf("%d are told that their issuer's share is full", last)
			}
		}
		s.reportAll(1, digest(1))
		s.must(s.open(panelled(2, 8, 1, plan.Panel{Registered: 16}, 2, 0), digest(2)))
		s.reopened()
	}
}

// A set of keys is a set, in ascending order, and is read as it was written.
func TestKeysAreASet(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		set, model := keyset{width: markSize}, map[[markSize]byte]bool{}
		key := rapid.Custom(func(rt *rapid.T) (k [markSize]byte) {
			draw := func(name string) byte { return rapid.Byte().Draw(rt, name) }
			k[0], k[1], k[15] = draw("a")%3*127, draw("b")%2*63, draw("c")%5
			return k
		})
		for range rapid.IntRange(1, 80).Draw(rt, "operations") {
			k := key.Draw(rt, "key")
			switch rapid.IntRange(0, 2).Draw(rt, "operation") {
			case 0:
				set.add(k[:])
				model[k] = true
			case 1:
				set.remove(k[:])
				delete(model, k)
			}
			if set.has(k[:]) != model[k] || set.n != len(model) {
				rt.Fatalf("%x: %v, %d of %d", k, set.has(k[:]), set.n, len(model))
			}
		}
		all := set.bytes()
		again, err := keysetOf(markSize, all)
		if err != nil || string(again.bytes()) != string(all) || len(all) != markSize*len(model) {
			rt.Fatalf("%x is read as %x, %v", all, again.bytes(), err)
		}
		if len(all) > markSize {
			twice := append(slices.Clone(all[:markSize]), all...)
			if _, err := keysetOf(markSize, twice); err == nil {
				rt.Fatal("a key twice is read")
			}
		}
		if _, err := keysetOf(markSize, append(all, 1)); err == nil {
			rt.Fatal("half a key is read")
		}
	})
}

// What an installation costs in memory for ever: a tenth of what a host does that the registrar let in.
func TestAnInstallationTakesFewBytes(t *testing.T) {
	const many, size = 1 << 18, 1 << 15
	cost := func(by *wire.IssuerCertificate, panels bool) float64 {
		s := NewState(Admission{Minimum: 1})
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		apply := func(ev *Event, err error) {
			if err == nil {
				err = s.Apply(ev)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		covered := Covered{}
		for n := range many {
			id := installation(n)
			if panels {
				_, ev, err := s.Register(id, by)
				apply(ev, err)
				continue
			}
			if epoch := uint64(n/size) + 1; n%size == 0 {
				if e := s.epoch; e != nil {
					apply(&Event{Committed: &Committed{Outcome: wire.Destroyed}}, nil)
					apply(&Event{Finished: &Finished{}}, nil)
				}
				apply(OpenedBy(announcement(epoch, 0, size, 1, 1), digest(1), channel.Layout{}, start), nil)
			}
			e := wire.Enrolment{Admission: wire.Admission{HostKey: id.Host, Covers: 1, Issuer: by}}
			if err := covered.Refuse(e); err != nil {
				t.Fatal(err)
			}
			_, _, ev, err := s.Enrol(id, by, s.epoch.number, digest(1), start)
			apply(ev, err)
		}
		if !panels { // the open epoch is over
			apply(&Event{Committed: &Committed{Outcome: wire.Destroyed}}, nil)
			apply(&Event{Finished: &Finished{}}, nil)
			apply(OpenedBy(announcement(99, 0, size, 1, 1), digest(1), channel.Layout{}, start), nil)
			s.requests.turn()
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(covered)
		runtime.KeepAlive(s)
		return (float64(after.HeapAlloc) - float64(before.HeapAlloc)) / many
	}
	by := certified(7, many)
	t.Logf("as they arrive: %.0f bytes, %.0f of a host of the registrar's; registered: %.0f, %.0f", cost(by, false),
		cost(nil, false), cost(by, true), cost(nil, true))
	if c := cost(by, false); c > 24 {
		t.Errorf("%.0f bytes of an installation that was in a cohort", c)
	}
	if c := cost(by, true); c > 80 { // with the number of its request
		t.Errorf("%.0f bytes of an installation that registered", c)
	}
}
