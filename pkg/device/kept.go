package device

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// What Save writes of the record of an open promise: three bytes of how far it is, then as many decisions as the plan
// allows, then a tag. Numbers are big-endian. Its size follows from the plan, whatever was decided. The tag binds it to
// the promise, its slot and the announcement beside which it was saved.

const (
	// maxKept is the most bytes of a record that Save writes; a larger one is null after a restart.
	maxKept = 1 << 20

	keptHead     = 3         // how far its reports for a mailbox are, arms known, forgotten
	keptDecision = 1 + 3*8   // flags, handle, weight, reward; then the arm
	maxHandle    = 1<<53 - 1 // which JSON carries exactly
	tagSize      = sha256.Size
)

// Flags of a kept decision.
const (
	keptThere = 1 << iota
	keptRewarded
	keptExplored
	keptControl
	keptAll = 1<<iota - 1
)

// keptSize is the size of what is kept under an announcement, without the tag.
func keptSize(a *Announced) int {
	return keptHead + a.Plan.PerReport()*(keptDecision+8*a.Policy.Dimension)
}

// keep is the record as Save writes it; nil where there is none that is worth it.
func (d *Device) keep() []byte {
	if d.record == nil || d.record.Over() || keptSize(d.last) > maxKept {
		return nil
	}
	b := d.record.append(make([]byte, 0, keptSize(d.last)+tagSize), d.handles, d.last)
	return append(b, d.tag(b)...)
}

// tag binds a kept record to its promise.
func (d *Device) tag(record []byte) []byte {
	e := d.state.Enrolment
	mac := hmac.New(sha256.New, d.kept.Secret)
	mac.Write([]byte("riffle record"))
	mac.Write(d.last.Digest[:])
	mac.Write(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, d.state.Number), e.Slot))
	mac.Write(record)
	return mac.Sum(nil)
}

// recall opens the promise of a device that was restarted, with the record that was kept. What is not the record of
// this promise, or no record at all, counts as the null record: that is reported, and no first report for a mailbox is
// made any more, since the arms may be known.
func (d *Device) recall() {
	e, kept := d.state.Enrolment, d.kept.Record
	owes := d.state.Owes(d.last)
	if e == nil || d.last.Final || e.Epoch != d.last.Epoch || !owes && len(kept) == 0 {
		return
	}
	d.begin()
	good := len(kept) == keptSize(d.last)+tagSize
	if good {
		body, tag := kept[:len(kept)-tagSize], kept[len(kept)-tagSize:]
		good = hmac.Equal(tag, d.tag(body))
		if good {
			d.handles, good = d.record.restore(body, d.last)
		}
	}
	switch at := d.record.open().deposit; {
	case at == noDeposit && !owes:
		d.forget()
	case !good:
		d.Forget()
		d.record.known()
	}
}

// append appends what the record holds, with the handles of its decisions.
func (r Record) append(b []byte, handles []uint64, a *Announced) []byte {
	h := r.open()
	flag := func(set bool, of byte) byte {
		if set {
			return of
		}
		return 0
	}
	b = append(b, byte(h.deposit), flag(h.known, 1), flag(h.most == 0, 1))
	nobody := statistic.Record{Arm: make([]float64, a.Policy.Dimension)}
	for i := range a.Plan.PerReport() {
		one, handle, flags := &nobody, uint64(0), byte(0)
		if i < len(h.records) {
			one, handle = h.records[i], handles[i]
			flags = keptThere | flag(!one.Null, keptRewarded) | flag(one.Explored, keptExplored) |
				flag(one.Control, keptControl)
		}
		b = append(b, flags)
		b = binary.BigEndian.AppendUint64(b, handle)
		for _, x := range append([]float64{one.Weight, one.Reward}, one.Arm...) {
			b = binary.BigEndian.AppendUint64(b, math.Float64bits(x))
		}
	}
	return b
}

// restore fills a record that was just begun with what append wrote, and returns the handles of its decisions. What
// append would not have written is not good, and leaves the record null.
func (r Record) restore(b []byte, a *Announced) (handles []uint64, good bool) {
	h, dim := r.open(), a.Policy.Dimension
	at, known, forgotten := deposited(b[0]), b[1], b[2]
	if at > placed || known > 1 || forgotten > 1 || at == unplaced && known == 1 {
		return nil, false
	}
	var records []*statistic.Record
	for rest := b[keptHead:]; len(rest) > 0; rest = rest[keptDecision+8*dim:] {
		flags, handle := rest[0], binary.BigEndian.Uint64(rest[1:])
		numbers := make([]float64, 2+dim)
		for i := range numbers {
			numbers[i] = math.Float64frombits(binary.BigEndian.Uint64(rest[9+8*i:]))
		}
		if flags&keptThere == 0 {
			if slices.ContainsFunc(rest[:keptDecision+8*dim], func(x byte) bool { return x != 0 }) {
				return nil, false
			}
			continue
		}
		one := &statistic.Record{
			Weight: numbers[0], Reward: numbers[1], Arm: numbers[2:], Null: flags&keptRewarded == 0,
			Explored: flags&keptExplored != 0, Control: flags&keptControl != 0,
		}
		switch {
		case flags > keptAll, handle == 0, handle > maxHandle, slices.Contains(handles, handle),
			len(records) < (len(b)-keptHead-len(rest))/(keptDecision+8*dim), // after one that is not there
			one.Null && one.Reward != 0, one.Weight < 0, known == 0, forgotten == 1,
			slices.ContainsFunc(numbers, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }):
			return nil, false
		}
		records, handles = append(records, one), append(handles, handle)
	}
	h.deposit, h.known, h.records = at, known == 1, records
	if forgotten == 1 {
		r.Forget()
	}
	if at != noDeposit {
		h.reported = 0 // its entry in the ledger is spent by the first deposit, and the second may follow
	}
	return handles, true
}

// draw draws the promise's secret where there is none.
func (d *Device) draw() {
	if len(d.kept.Secret) != seal.SecretSize {
		d.kept.Secret = seal.Secret()
	}
}
