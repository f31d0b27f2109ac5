package simulation

import (
	"bytes"
	"slices"

	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// membership finds whose reports a release is of, and holds what left against them.
func (o *oracle) membership(r round, l *released) {
	w, m := o.w, l.m
	a := o.announced[r]
	if a == nil || a.digest != [32]byte(m.Announcement) {
		w.violated("membership", "round %v is released under an announcement that was not made", r)
		return
	}
	if m.Reports < a.Cohort.Minimum || m.Reports < least {
		w.violated("minimum", "round %v is released with %d reports of at least %d", r, m.Reports, a.Cohort.Minimum)
	}
	var candidates []*report
	for _, one := range o.reports {
		if one.at == r && one.Announcement == a.digest {
			candidates = append(candidates, one)
		}
	}
	slices.SortFunc(candidates, func(a, b *report) int { return bytes.Compare(a.digest[:], b.digest[:]) })
	l.members = subset(candidates, int(m.Reports), [32]byte(m.ReportsDigest))
	if l.members == nil {
		w.violated("membership", "round %v is released with %d reports, which are no %d of the %d that were sent", r,
			m.Reports, m.Reports, len(candidates))
		return
	}
	slots := map[uint32]bool{}
	for _, one := range l.members {
		if slots[one.Slot] {
			w.violated("counted twice", "slot %d of round %v is in its release twice", one.Slot, r)
		}
		slots[one.Slot] = true
		o.once(r, one)
	}
	if w.list.Channel != plan.Shares {
		o.mixed(r, l)
	}
}

// once sees that a device is in a round's release once, and in the releases of no more epochs than the plan counts.
func (o *oracle) once(r round, one *report) {
	who := mark{host: one.host, device: one.device}
	rounds := o.counted[who]
	if slices.Contains(rounds, r) {
		o.w.violated("counted twice", "device %d is in the release of round %v twice", one.device, r)
	}
	o.counted[who] = append(rounds, r)
	epochs := map[uint64]bool{}
	for _, other := range o.counted[who] {
		epochs[other.epoch] = true
	}
	if len(epochs) > o.w.records() && !o.w.anyBack() {
		o.w.violated("counted twice", "device %d is in the releases of rounds %v", one.device, o.counted[who])
	}
}

// mixed sees that what left are the members' messages, each once, and the planned noise.
func (o *oracle) mixed(r round, l *released) {
	w := o.w
	size := seal.BitSize
	if w.list.Channel != plan.Shuffle {
		size = len(l.members[0].Payload)
	}
	seen, strangers := map[string]bool{}, uint64(0)
	per := map[[32]byte]int{}
	for index := range l.m.Chunks {
		chunk, err := wire.ParseChunk(l.chunks[index])
		if err != nil {
			w.violated("mixed", "chunk %d of round %v: %v", index, r, err)
			return
		}
		messages, err := chunk.Messages(size)
		if err != nil {
			w.violated("mixed", "chunk %d of round %v: %v", index, r, err)
			return
		}
		for _, message := range messages {
			if seen[string(message)] {
				w.violated("counted twice", "a message is in round %v twice", r)
			}
			seen[string(message)] = true
			if owner := o.owners[string(message)]; owner != nil {
				per[owner.digest]++
			} else {
				strangers++
			}
		}
	}
	if strangers != l.m.NoiseMessages {
		w.violated("membership", "%d messages of nobody are in round %v, and %d are noise", strangers, r,
			l.m.NoiseMessages)
	}
	for _, one := range l.members {
		if want := len(o.messages(one.Payload)); per[one.digest] != want {
			w.violated("membership", "%d of %d messages of device %d are in round %v", per[one.digest], want,
				one.device, r)
		}
		delete(per, one.digest)
	}
	for digest := range per {
		w.violated("membership", "messages of device %d are in round %v, and it is no member",
			o.reports[digest].device, r)
	}
}

// subset finds so many reports whose digest is the given one; nil where there are none.
func subset(of []*report, n int, digest [32]byte) []*report {
	if n > len(of) || len(of) > 24 {
		return nil
	}
	for bits := range uint32(1) << len(of) {
		var chosen []*report
		var digests [][32]byte
		for k, one := range of {
			if bits>>k&1 == 1 {
				chosen, digests = append(chosen, one), append(digests, one.digest)
			}
		}
		if len(chosen) == n && wire.ReportsDigest(digests) == digest {
			return chosen
		}
	}
	return nil
}
