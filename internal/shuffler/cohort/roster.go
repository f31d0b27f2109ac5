package cohort

// What the shuffler remembers of each device, in few bytes: a cohort may have millions.

// deviceKey is a device in the shuffler's memory: its host's place in hosts, and its number there.
type deviceKey struct{ host, number uint32 }

// hosts are the keys of hosts whose devices were in a cohort, each once, in the order in which they came.
type hosts struct {
	keys paged[[32]byte]
	// By the beginning of a key, which hardly two have in common; and by the whole key those that have.
	place map[[8]byte]uint32
	rest  map[[32]byte]uint32
}

func newHosts() hosts { return hosts{place: map[[8]byte]uint32{}, rest: map[[32]byte]uint32{}} }

// find tells a host's place.
func (h *hosts) find(key [32]byte) (place uint32, ok bool) {
	if place, ok = h.place[[8]byte(key[:8])]; ok && *h.keys.at(int(place)) == key {
		return place, true
	}
	place, ok = h.rest[key]
	return place, ok
}

// add gives a host a place, if it has none.
func (h *hosts) add(key [32]byte) (place uint32) {
	if place, ok := h.find(key); ok {
		return place
	}
	place = uint32(h.keys.len())
	h.keys.add(key)
	if _, taken := h.place[[8]byte(key[:8])]; !taken {
		h.place[[8]byte(key[:8])] = place
	} else {
		h.rest[key] = place
	}
	return place
}

// key is how a device is known here; ok is false if none of its host's ever was in a cohort.
func (h *hosts) key(id DeviceID) (key deviceKey, ok bool) {
	place, ok := h.find(id.Host)
	return deviceKey{place, id.Number}, ok
}

// id is the device of a key.
func (h *hosts) id(key deviceKey) DeviceID { return DeviceID{*h.keys.at(int(key.host)), key.number} }

// enrolled is a set of devices that is kept for ever: one bit for each, in words of 32 that follow each other on a
// host.
type enrolled map[deviceKey]uint32

// wordBits is how many devices share a word.
const wordBits = 32

func (e enrolled) has(key deviceKey) bool {
	return e[deviceKey{key.host, key.number / wordBits}]&(1<<(key.number%wordBits)) != 0
}

func (e enrolled) add(key deviceKey) {
	e[deviceKey{key.host, key.number / wordBits}] |= 1 << (key.number % wordBits)
}

// slot is who holds a place in a cohort, and when their report is due, in milliseconds of the Unix epoch.
type slot struct {
	device   deviceKey
	reportAt int64
}

// reports are the admitted reports of a round by slot. The zero value has none.
type reports struct {
	bySlot paged[admitted]
	count  int
}

// admitted is a report, or the lack of one: then next is 0.
type admitted struct {
	next   uint64 // the place behind the report's in the stream of reports
	digest Digest
}

func (a *admitted) sequence() uint64 { return a.next - 1 }

// get is the report of a slot; nil if there is none.
func (r *reports) get(slot uint32) *admitted {
	if int(slot) >= r.bySlot.len() || r.bySlot.at(int(slot)).next == 0 {
		return nil
	}
	return r.bySlot.at(int(slot))
}

// put enters the report of a slot that has none.
func (r *reports) put(slot uint32, sequence uint64, digest Digest) {
	for r.bySlot.len() <= int(slot) {
		r.bySlot.add(admitted{})
	}
	*r.bySlot.at(int(slot)) = admitted{sequence + 1, digest}
	r.count++
}

// remove takes the report of a slot out, which has one.
func (r *reports) remove(slot uint32) {
	*r.bySlot.at(int(slot)) = admitted{}
	r.count--
}

// each are the reports in order of slots.
func (r *reports) each(yield func(uint32, *admitted) bool) {
	for i := range r.bySlot.len() {
		if a := r.bySlot.at(i); a.next != 0 && !yield(uint32(i), a) {
			return
		}
	}
}

// paged is a list that grows without being copied.
type paged[T any] struct {
	pages [][]T
	n     int
}

const pageItems = 1024

func (p *paged[T]) len() int { return p.n }

func (p *paged[T]) at(i int) *T { return &p.pages[i/pageItems][i%pageItems] }

func (p *paged[T]) add(v T) {
	if p.n%pageItems == 0 {
		p.pages = append(p.pages, nil)
	}
	// The first page grows, so that a small cohort takes little.
	last := &p.pages[len(p.pages)-1]
	if *last == nil && p.n > 0 {
		*last = make([]T, 0, pageItems)
	}
	*last = append(*last, v)
	p.n++
}
