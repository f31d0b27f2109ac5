package envelope

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/channel"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	machine "github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

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
// source gives, and even if the envelopes are gone. The exact sums are nowhere: not on disk, not in the log.
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
	stored := numbers(noised...)
	found := func(in []byte) (where []string) {
		for _, name := range x.files() {
			b, err := os.ReadFile(filepath.Join(x.folder, name))
			x.must(err)
			// These may be here. A small number would be found by chance where a zero ends one and the next begins.
			if !bytes.Equal(in, stored) {
				b = bytes.ReplaceAll(b, stored, bytes.Repeat([]byte{0xff}, len(stored)))
				b = bytes.ReplaceAll(b, m.ChunksDigest, bytes.Repeat([]byte{0xff}, len(m.ChunksDigest)))
			}
			if bytes.Contains(b, in) {
				where = append(where, name)
			}
		}
		return where
	}
	logged := regexp.MustCompile(`[0-9]+`).FindAllString(x.log.String(), -1)
	for i, n := range exact {
		if i == 1 { // too small to tell from other numbers on disk and in the log
			continue
		}
		if n == noised[i] {
			t.Fatalf("no noise on %d", i)
		}
		for _, secret := range []uint64{n, noised[i] - n} {
			if where := found(numbers(secret)); len(where) > 0 {
				t.Errorf("the exact sum %d, or its noise, is in %v", i, where)
			}
			if slices.Contains(logged, strconv.FormatUint(secret, 10)) {
				t.Errorf("the exact sum %d, or its noise, is in the log: %s", i, x.log.String())
			}
		}
	}
	if len(found(stored)) != 1 { // the search has power
		t.Errorf("the noised sums are in %v", found(stored))
	}
	if log := x.log.String(); !strings.Contains(log, string(Repeated)) {
		t.Errorf("log: %s", log)
	}
	x.Counting = x.process()
	x.stored = nil
	again, err := x.count(m)
	if err != nil || !slices.Equal(again[0].Ones, first[0].Ones) || !slices.Equal(again[1].Ones, first[1].Ones) {
		t.Errorf("counted again: %v, %v; first %v", again, err, first)
	}
}

// numbers is how a file holds them, one after the other.
func numbers(all ...uint64) (b []byte) {
	for _, n := range all {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
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

// Devices that were not in an epoch's first round are not counted in a later one.
func TestLaterRoundsCountTheFirstOnesDevices(t *testing.T) {
	t.Parallel()
	x := newTable(t, plan.Central)
	var who []devices.Present
	for i := range people - 1 {
		who = append(who, x.device(uint32(i)))
	}
	x.must(x.Participants.Add(1, 7, who)) // another round of the epoch
	counts, err := x.count(x.cut(x.envelopes(people)))
	if err != nil || counts == nil || x.refused(Newcomer) != 1 {
		t.Errorf("%v, account %+v", err, x.Messages.Balance())
	}
}

// device is one of the table's host.
func (x *table) device(number uint32) devices.Present {
	return devices.Present{Participant: devices.Participant{Host: [32]byte(x.host.Public()), Number: number}}
}
