package composetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// record is what devices sent and what left the shuffler, as the tap saw it. Every bit message is sealed with a key of
// its own, so each is a mark of the report that it came in.
type record struct {
	bundle   keyring.Bundle
	reports  *seal.ReportOpener
	bits     []*seal.HPKEKey // the analyzer's
	read     int             // of what the tap keeps
	owners   map[string]*sent
	chunks   map[string][]byte              // by epoch, round and index
	counted  map[member]uint64              // epoch in which a device was counted
	messages map[string]uint64              // epoch in which a message was counted
	reported map[uint64]map[member][32]byte // digest of the one report that a device sends in an epoch
}

// member is a device of a host.
type member struct {
	host   [32]byte
	device uint32
}

// sent is one report.
type sent struct {
	member
	epoch  uint64
	digest [32]byte
	size   int // messages
}

// loadRecord is an empty record with the keys of a deployment.
func loadRecord(t *testing.T, keys string) *record {
	shuffler, err := keyring.LoadShuffler(keys)
	if err != nil {
		t.Fatal(err)
	}
	analyzer, err := keyring.LoadAnalyzer(keys)
	if err != nil {
		t.Fatal(err)
	}
	return newRecord(t, shuffler.Bundle, shuffler.HPKE, analyzer.HPKE)
}

func newRecord(t *testing.T, bundle keyring.Bundle, shuffler, analyzer []*seal.HPKEKey) *record {
	reports, err := seal.NewReportOpener(shuffler...)
	if err != nil {
		t.Fatal(err)
	}
	return &record{bundle: bundle, reports: reports, bits: analyzer, owners: map[string]*sent{},
		chunks: map[string][]byte{}, counted: map[member]uint64{}, messages: map[string]uint64{},
		reported: map[uint64]map[member][32]byte{}}
}

// take reads what the tap kept. Each error is a violation.
func (r *record) take(all []tapKept) error {
	var errs []error
	for _, k := range all {
		r.read++
		if place, ok := strings.CutPrefix(k.Subject, bus.SubjectMixed+"."); ok {
			if before := r.chunks[place]; before != nil && !bytes.Equal(before, k.Payload) {
				errs = append(errs, fmt.Errorf("chunk %s left a second time with other bytes", place))
			}
			r.chunks[place] = k.Payload
		} else if err := r.report(k); err != nil {
			errs = append(errs, fmt.Errorf("a report of %s: %w", k.Link, err))
		}
	}
	return errors.Join(errs...)
}

func (r *record) report(k tapKept) error {
	_, round, _ := strings.Cut(k.Header, "Riffle-Round:")
	round, _, _ = strings.Cut(strings.TrimSpace(round), "\r\n")
	name, _, _ := strings.Cut(round, ".")
	epoch, err := strconv.ParseUint(name, 10, 64)
	if err != nil {
		return err
	}
	context := seal.ReportContext{Deployment: r.bundle.Deployment, Epoch: epoch}
	plain, err := wire.OpenEnvelope(k.Payload, r.reports, context)
	if err != nil {
		return err
	}
	payload := len(plain)
	for payload > 0 && wire.ReportSize(payload) > len(plain) {
		payload--
	}
	one, digest, err := wire.ParseReport(plain, payload)
	if err != nil {
		return err
	}
	s := &sent{member: member{one.HostKey, one.Device}, epoch: epoch, digest: digest, size: payload / seal.BitSize}
	if r.reported[epoch] == nil {
		r.reported[epoch] = map[member][32]byte{}
	}
	if before, ok := r.reported[epoch][s.member]; ok && before != digest {
		return fmt.Errorf("device %d sends a second, different report in epoch %d", one.Device, epoch)
	}
	r.reported[epoch][s.member] = digest
	for at := 0; at < payload; at += seal.BitSize {
		message := string(one.Payload[at : at+seal.BitSize])
		if other := r.owners[message]; other != nil && other.digest != digest {
			return fmt.Errorf("device %d sends a message of another report", one.Device)
		}
		r.owners[message] = s
	}
	return nil
}

// checkRelease holds a release against the reports that it must be of, and its counts against the sum of what these
// say. They count each message once, and each device in one epoch of its life. A release that the analyzer refuses
// has left all the same.
func (r *record) checkRelease(m *wire.Manifest, c *wire.Counts, a *plan.Announcement, digest [32]byte) error {
	opener := (*seal.BitOpener)(nil)
	for _, key := range r.bits {
		if bytes.Equal(key.Public(), a.AnalyzerKey) {
			opener = seal.NewBitOpener(key, digest)
		}
	}
	if opener == nil {
		return fmt.Errorf("epoch %d is announced with a key that the analyzer does not have", m.Epoch)
	}
	ones := make([][]uint64, len(a.Encodings))
	for i, e := range a.Encodings {
		ones[i] = make([]uint64, len(e.Coordinates))
	}
	per, here, members := map[*sent]int{}, map[string]bool{}, map[member]bool{}
	digests := make([][32]byte, m.Chunks)
	for i := range m.Chunks {
		bytes := r.chunks[fmt.Sprintf("%d.%d.%d", m.Epoch, m.Round, i)]
		chunk, err := wire.ParseChunk(bytes)
		if err != nil {
			return err
		}
		digests[i] = wire.ChunkDigest(bytes)
		messages, err := chunk.Messages(seal.BitSize)
		if err != nil {
			return err
		}
		for _, message := range messages {
			if epoch, ok := r.messages[string(message)]; ok || here[string(message)] {
				return fmt.Errorf("a message is counted twice: in epoch %d and before (%d)", m.Epoch, epoch)
			}
			here[string(message)] = true
			owner := r.owners[string(message)]
			if owner == nil || owner.epoch != m.Epoch {
				return fmt.Errorf("a message is in epoch %d that no device sent in it", m.Epoch)
			}
			per[owner]++
			release, coordinate, one, err := opener.Open(message)
			if err != nil {
				return err
			}
			if one {
				ones[release][coordinate]++
			}
		}
	}
	if got := wire.ChunksDigest(digests); !bytes.Equal(got[:], m.ChunksDigest) {
		return fmt.Errorf("the chunks that left are not those of the manifest")
	}
	if len(here) != int(m.Messages) {
		return fmt.Errorf("%d messages left, the manifest names %d", len(here), m.Messages)
	}
	if len(per) != int(m.Reports) {
		return fmt.Errorf("messages of %d reports left, the manifest names %d", len(per), m.Reports)
	}
	if len(per) < int(a.Cohort.Minimum) {
		return fmt.Errorf("%d reports left, and the announced minimum is %d", len(per), a.Cohort.Minimum)
	}
	for owner, n := range per {
		if n != owner.size {
			return fmt.Errorf("%d of %d messages of device %d left", n, owner.size, owner.device)
		}
		if epoch, ok := r.counted[owner.member]; ok {
			return fmt.Errorf("device %d is counted in epoch %d and in epoch %d", owner.device, epoch, m.Epoch)
		}
		members[owner.member] = true
	}
	if !c.Destroyed {
		if err := compare(c, ones); err != nil {
			return err
		}
	}
	for message := range here {
		r.messages[message] = m.Epoch
	}
	for device := range members {
		r.counted[device] = m.Epoch
	}
	return nil
}

// compare holds the analyzer's counts against the ones that the devices sent.
func compare(c *wire.Counts, ones [][]uint64) error {
	if len(c.Releases) != len(ones) {
		return fmt.Errorf("%d releases are counted, %d are announced", len(c.Releases), len(ones))
	}
	for i := range c.Releases {
		if got := len(c.Releases[i].Ones); got != len(ones[i]) {
			return fmt.Errorf("%d coordinates of release %d are counted, of %d", got, i, len(ones[i]))
		}
		for k, n := range c.Releases[i].Ones {
			if n != ones[i][k] {
				return fmt.Errorf("coordinate %d of release %d is counted as %d, the devices sent %d", k, i, n,
					ones[i][k])
			}
		}
	}
	return nil
}

// blind tells what the record does not see of a release that is sound: a count that is off by one, and the same release
// a second time. Each is tried on every release of a run.
func (r *record) blind(m *wire.Manifest, c *wire.Counts, a *plan.Announcement, digest [32]byte, out bool) error {
	if out {
		if r.checkRelease(m, c, a, digest) == nil {
			return errors.New("the record does not see that a release is counted twice")
		}
		return nil
	}
	off := *c
	off.Releases = slices.Clone(c.Releases)
	off.Releases[0].Ones = slices.Clone(c.Releases[0].Ones)
	off.Releases[0].Ones[0]++
	if r.checkRelease(m, &off, a, digest) == nil {
		return errors.New("the record does not see that a count is off by one")
	}
	return nil
}
