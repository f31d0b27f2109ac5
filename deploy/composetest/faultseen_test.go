package composetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// heard is a release as the judge of a run meets it: what the tap kept, and what the two servers signed.
type heard struct {
	t        *testing.T
	r        *record
	shuffler *seal.HPKEKey
	host     *seal.Identity
	a        *plan.Announcement
	messages [][]byte // that leave
	c        *wire.Counts
	m        *wire.Manifest
}

// bitsEach is how many messages a device sends for each of the two coordinates: the first of them is a one.
const bitsEach = 2

func newHeard(t *testing.T) *heard {
	h := &heard{t: t, shuffler: testbed.NewKey(t), host: testbed.NewIdentity(t)}
	analyzer := testbed.NewKey(t)
	h.r = newRecord(t, keyring.Bundle{Deployment: "test"}, []*seal.HPKEKey{h.shuffler}, []*seal.HPKEKey{analyzer})
	h.a = &plan.Announcement{AnalyzerKey: analyzer.Public(), Cohort: plan.Cohort{Size: 3, Minimum: 2},
		Encodings: []protocol.Encoding{{Coordinates: make([]protocol.Coordinate, 2)}}}
	h.epoch(1)
	return h
}

// epoch begins one of which nothing has left yet.
func (h *heard) epoch(n uint64) {
	h.messages = nil
	h.m = &wire.Manifest{Epoch: n, Outcome: wire.Released}
	h.c = &wire.Counts{Epoch: n, Releases: []wire.ReleaseCounts{{Ones: make([]uint64, 2)}}}
}

// bits makes the messages of a new report.
func (h *heard) bits() (all []byte) {
	sealer, err := seal.NewBitSealer(h.a.AnalyzerKey, [32]byte{})
	for k := range h.a.Encodings[0].Coordinates {
		if err == nil {
			all, err = sealer.AppendSealRun(all, 0, uint16(k), bitsEach, 1)
		}
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return all
}

// report is a device's report on its way to the broker.
func (h *heard) report(device uint32, bits []byte) tapKept {
	plain, err := wire.BuildReport(wire.Report{Epoch: h.m.Epoch, Device: device, Payload: bits}, h.host)
	if err != nil {
		h.t.Fatal(err)
	}
	envelope, err := wire.SealReport(plain, h.shuffler.Public(),
		seal.ReportContext{Deployment: "test", Epoch: h.m.Epoch})
	if err != nil {
		h.t.Fatal(err)
	}
	return tapKept{Link: "host1", Subject: "riffle.v1.report.host", Payload: envelope,
		Header: fmt.Sprintf("NATS/1.0\r\nNats-Msg-Id: x\r\nRiffle-Round: %d.0\r\n\r\n", h.m.Epoch)}
}

// sends has a device report, and takes the report into the release and its counts.
func (h *heard) sends(device uint32) error {
	bits := h.bits()
	h.messages = append(h.messages, slices.Collect(slices.Chunk(bits, seal.BitSize))...)
	for k := range h.c.Releases[0].Ones {
		h.c.Releases[0].Ones[k]++
	}
	h.m.Reports++
	return h.r.take([]tapKept{h.report(device, bits)})
}

// chunk is what leaves.
func (h *heard) chunk() tapKept {
	bytes, err := wire.BuildChunk(wire.Chunk{Epoch: h.m.Epoch, Payload: slices.Concat(h.messages...)})
	if err != nil {
		h.t.Fatal(err)
	}
	return tapKept{Link: "shuffler", Subject: fmt.Sprintf("riffle.v1.mixed.%d.0.0", h.m.Epoch), Payload: bytes}
}

// leaves has the release leave, and says what the record finds.
func (h *heard) leaves(changes ...func()) error {
	chunk := h.chunk()
	digest := wire.ChunksDigest([][32]byte{wire.ChunkDigest(chunk.Payload)})
	h.m.Chunks, h.m.ChunksDigest, h.m.Messages = 1, digest[:], uint64(len(h.messages))
	if err := h.r.take([]tapKept{chunk}); err != nil {
		return err
	}
	for _, change := range changes {
		change()
	}
	return h.r.checkRelease(h.m, h.c, h.a, [32]byte{})
}

// TestTheRecordSees puts to the record, one at a time, what must not happen, and what may.
func TestTheRecordSees(t *testing.T) {
	for name, one := range map[string]struct {
		does  func(h *heard) error
		finds string // nothing where it is sound
	}{
		"a sound release": {func(h *heard) error { return h.leaves() }, ""},
		"a report that is handed in again": {func(h *heard) error {
			h.m.Reports++
			bits := h.bits()
			h.messages = append(h.messages, slices.Collect(slices.Chunk(bits, seal.BitSize))...)
			h.c.Releases[0].Ones = []uint64{4, 4}
			again := h.report(7, bits)
			if err := h.r.take([]tapKept{again, again}); err != nil {
				return err
			}
			return h.leaves()
		}, ""},
		"a chunk that leaves again": {func(h *heard) error {
			if err := h.r.take([]tapKept{h.chunk()}); err != nil {
				return err
			}
			return h.leaves()
		}, ""},
		"a count that is off by one": {func(h *heard) error {
			h.c.Releases[0].Ones[1]--
			return h.leaves()
		}, "coordinate 1 of release 0 is counted as 2, the devices sent 3"},
		"a coordinate without a count": {func(h *heard) error {
			h.c.Releases[0].Ones = h.c.Releases[0].Ones[:1]
			return h.leaves()
		}, "1 coordinates of release 0"},
		"a release without counts": {func(h *heard) error {
			h.c.Releases = nil
			return h.leaves()
		}, "0 releases are counted"},
		"a message that leaves twice": {func(h *heard) error {
			h.messages = append(h.messages, h.messages[0])
			return h.leaves()
		}, "a message is counted twice"},
		"a message that does not leave": {func(h *heard) error {
			h.messages = h.messages[1:]
			return h.leaves()
		}, "3 of 4 messages of device 0 left"},
		"a message that nobody sent": {func(h *heard) error {
			h.messages[0] = h.bits()[:seal.BitSize]
			return h.leaves()
		}, "no device sent"},
		"a report that the manifest does not name": {func(h *heard) error {
			return h.leaves(func() { h.m.Reports-- })
		}, "messages of 3 reports left, the manifest names 2"},
		"fewer than the minimum": {func(h *heard) error {
			h.a.Cohort.Minimum = 4
			return h.leaves()
		}, "3 reports left, and the announced minimum is 4"},
		"messages that the manifest does not name": {func(h *heard) error {
			return h.leaves(func() { h.m.Messages-- })
		}, "12 messages left, the manifest names 11"},
		"a sound release that the analyzer refuses": {func(h *heard) error {
			h.c = &wire.Counts{Destroyed: true}
			return h.leaves()
		}, ""},
		"fewer than the minimum, which the analyzer does not count": {func(h *heard) error {
			h.a.Cohort.Minimum = 4
			h.c = &wire.Counts{Destroyed: true}
			return h.leaves()
		}, "3 reports left, and the announced minimum is 4"},
		"other chunks than the manifest's": {func(h *heard) error {
			return h.leaves(func() { h.m.ChunksDigest = make([]byte, 32) })
		}, "not those of the manifest"},
		"a release that is tried again with another order": {func(h *heard) error {
			if err := h.r.take([]tapKept{h.chunk()}); err != nil {
				return err
			}
			slices.Reverse(h.messages)
			return h.leaves()
		}, "left a second time with other bytes"},
		"a release that is tried again with other members": {func(h *heard) error {
			if err := h.r.take([]tapKept{h.chunk()}); err != nil {
				return err
			}
			if err := h.sends(3); err != nil {
				return err
			}
			return h.leaves()
		}, "left a second time with other bytes"},
		"a device that reports twice": {func(h *heard) error { return h.sends(0) }, "second, different report"},
		"what comes after something that is found": {func(h *heard) error {
			if err := h.sends(0); err == nil {
				return nil
			}
			slices.Reverse(h.messages)
			if err := h.r.take([]tapKept{h.report(1, h.bits()), h.chunk()}); err == nil {
				return nil
			}
			slices.Reverse(h.messages)
			return h.leaves()
		}, "left a second time with other bytes"},
		"a report that another device copies": {func(h *heard) error {
			bits := h.bits()
			return h.r.take([]tapKept{h.report(8, bits), h.report(9, bits)})
		}, "device 9 sends a message of another report"},
		"a release that is counted twice": {func(h *heard) error {
			if err := h.leaves(); err != nil {
				return err
			}
			return h.leaves()
		}, "a message is counted twice"},
		"messages of an earlier epoch": {func(h *heard) error {
			kept := h.messages
			h.epoch(2)
			h.m.Reports, h.messages = 3, kept
			return h.leaves()
		}, "a message is in epoch 2 that no device sent in it"},
		"a device that is counted in two epochs": {func(h *heard) error {
			if err := h.leaves(); err != nil {
				return err
			}
			h.epoch(2)
			for _, device := range []uint32{5, 0} {
				if err := h.sends(device); err != nil {
					return err
				}
			}
			return h.leaves()
		}, "device 0 is counted in epoch 1 and in epoch 2"},
		"a key that is not the analyzer's": {func(h *heard) error {
			h.a.AnalyzerKey = testbed.NewKey(t).Public()
			return h.leaves()
		}, "a key that the analyzer does not have"},
	} {
		h := newHeard(t)
		for device := range uint32(3) {
			if err := h.sends(device); err != nil {
				t.Fatal(err)
			}
		}
		err := one.does(h)
		if one.finds == "" && err != nil || one.finds != "" &&
			(err == nil || !strings.Contains(err.Error(), one.finds)) {
			t.Errorf("%s: the record finds %v, not %q", name, err, one.finds)
		}
	}
}

// TestTheRecordTriesItself sees that each release of a run shows that a wrong count and a second counting are found.
func TestTheRecordTriesItself(t *testing.T) {
	h := newHeard(t)
	for device := range uint32(3) {
		if err := h.sends(device); err != nil {
			t.Fatal(err)
		}
	}
	chunk := h.chunk()
	digest := wire.ChunksDigest([][32]byte{wire.ChunkDigest(chunk.Payload)})
	h.m.Chunks, h.m.ChunksDigest, h.m.Messages = 1, digest[:], uint64(len(h.messages))
	if err := h.r.take([]tapKept{chunk}); err != nil {
		t.Fatal(err)
	}
	if err := h.r.blind(h.m, h.c, h.a, [32]byte{}, false); err != nil {
		t.Error(err)
	}
	if err := h.r.checkRelease(h.m, h.c, h.a, [32]byte{}); err != nil {
		t.Fatal(err)
	}
	if err := h.r.blind(h.m, h.c, h.a, [32]byte{}, true); err != nil {
		t.Error(err)
	}
	clear(h.r.messages)
	clear(h.r.counted)
	if h.r.blind(h.m, h.c, h.a, [32]byte{}, true) == nil {
		t.Error("a record that has forgotten what was counted does not say so")
	}
}

// TestWhoIsCutOffMustSaySo sees that a role that calls itself ready while it is cut off is found, and only such a one.
func TestWhoIsCutOffMustSaySo(t *testing.T) {
	from := time.Now()
	ready, not := sample{at: from.Add(time.Second), ready: true}, sample{at: from.Add(time.Second)}
	early := sample{at: from.Add(-time.Second)}
	at := point{Step: "report", role: "host1"}
	kind := func(name string) fault {
		i := slices.IndexFunc(faults, func(f fault) bool { return f.name == name })
		if i < 0 {
			t.Fatal(name)
		}
		return faults[i]
	}
	for _, one := range []struct {
		first, then string
		says        map[string][]sample
		unsaid      []string
	}{
		{"the role's link is cut", "", map[string][]sample{"host1": {early, ready, not}, "shuffler": {ready}}, nil},
		{"the role's link is cut", "", map[string][]sample{"host1": {early, ready}, "shuffler": {not}},
			[]string{"host1"}},
		{"the role's link is silent", "", map[string][]sample{"host1": {ready}, "shuffler": {ready}},
			[]string{"host1"}},
		{"the role's link is slow", "", map[string][]sample{"host1": {ready}, "shuffler": {ready}}, nil},
		{"the role is killed", "the shuffler's link is cut", map[string][]sample{"host1": {not}, "shuffler": {ready}},
			[]string{"shuffler"}},
		{"the broker is paused", "", map[string][]sample{"host1": {ready}, "shuffler": {ready, not}},
			[]string{"host1"}},
	} {
		c := &faultCase{At: at, first: kind(one.first)}
		if one.then != "" {
			c.then = kind(one.then)
		}
		x := &faulty{trial: &trial{stack: &stack{ops: map[string]string{"host1": "", "shuffler": ""}},
			watch: &watch{samples: one.says}}}
		if got := x.unsaid(c, from); !slices.Equal(got, one.unsaid) {
			t.Errorf("%s; %s: %q have not said it, must be %q", one.first, one.then, got, one.unsaid)
		}
	}
}

// TestWhatACaseMayLose lists the faults after which reports may be missing, and those after which all may stand still.
func TestWhatACaseMayLose(t *testing.T) {
	lack, stop := map[string]bool{}, map[string]bool{}
	for _, f := range faults {
		for _, p := range points {
			c := &faultCase{At: p, first: f}
			if f.on != nil && !f.on(p) {
				continue
			}
			name := f.name
			if f.older {
				name += " of " + p.role
			}
			lack[name] = lack[name] || c.mayLack()
			stop[name] = stop[name] || c.mayStop()
		}
	}
	for name, may := range lack {
		stops := name == "the role is set back to the epoch's beginning of host1" ||
			name == "the broker loses power, and all writes of the epoch"
		lacks := stops || name == "host1's last reports come late, and the role is killed"
		if may != lacks || stop[name] != stops {
			t.Errorf("%s: may lack reports: %v, may stop: %v", name, may, stop[name])
		}
	}
}

// TestEveryLossIsFound sees which ends of an epoch are violations, by the fault that it had.
func TestEveryLossIsFound(t *testing.T) {
	for _, one := range []struct {
		fault                      fault
		reports, sampled           int
		destroyed, counted, stands bool
	}{
		{fault{}, 24, 24, false, true, true},
		{fault{}, 24, 23, false, true, true}, // one whose call failed
		{fault{}, 24, 25, false, true, false},
		{fault{}, 23, 24, false, true, false},
		{fault{}, 24, 24, false, false, false},
		{fault{}, 24, 24, true, false, false},
		{fault{}, 12, 24, true, false, false},
		{fault{mayEnd: true}, 12, 24, true, false, true},
		{fault{mayEnd: true}, 12, 24, true, true, false},
		{fault{mayEnd: true}, 23, 24, false, true, true},
		{fault{late: true}, 23, 24, false, true, true},
		{fault{late: true}, 24, 24, false, true, false},
	} {
		c := &faultCase{first: one.fault}
		f := found{m: &wire.Manifest{Enrolled: 24, Reports: uint32(one.reports), Outcome: wire.Released},
			c: &wire.Counts{Destroyed: !one.counted}}
		if one.destroyed {
			f.m.Outcome = wire.Destroyed
		}
		if c.ends(f, one.sampled); (len(c.Violations) == 0) != one.stands || c.Outcome == "" {
			t.Errorf("%+v: %s, violations %q", one, c.Outcome, c.Violations)
		}
	}
}
