package cohort

import (
	"maps"
	mathbits "math/bits"
	"slices"
)

// devices is a set of devices that is kept for ever, as of those that registered. A host's devices are numbered from 0,
// so it holds one bit for each, in pages: a third of a byte for each device of a host that has thousands. Of a host
// whose first device alone is in it, it holds the key.
type devices struct {
	many  map[[32]byte]map[uint32]*page
	alone keyset
}

const pageBits = 512

// page says of each of pageBits devices whether it is in the set.
type page [pageBits / 64]uint64

func newDevices() devices {
	return devices{many: map[[32]byte]map[uint32]*page{}, alone: keyset{width: 32}}
}

func (d *devices) has(id DeviceID) bool {
	if p := d.many[id.Host][id.Number/pageBits]; p != nil {
		return p[id.Number%pageBits/64]&(1<<(id.Number%64)) != 0
	}
	return id.Number == 0 && d.alone.has(id.Host[:])
}

func (d *devices) add(id DeviceID) {
	pages := d.many[id.Host]
	if pages == nil {
		if id.Number == 0 {
			d.alone.add(id.Host[:])
			return
		}
		pages = map[uint32]*page{}
		d.many[id.Host] = pages
		if d.alone.has(id.Host[:]) {
			d.alone.remove(id.Host[:])
			pages[0] = &page{1}
		}
	}
	p := pages[id.Number/pageBits]
	if p == nil {
		p = new(page)
		pages[id.Number/pageBits] = p
	}
	p[id.Number%pageBits/64] |= 1 << (id.Number % 64)
}

// each calls f with every device: host by host, in no order, and those of a host in ascending order.
func (d *devices) each(f func(DeviceID)) {
	for host, pages := range d.many {
		for _, at := range slices.Sorted(maps.Keys(pages)) {
			for i, word := range pages[at] {
				for ; word != 0; word &= word - 1 {
					f(DeviceID{host, at*pageBits + uint32(i*64+mathbits.TrailingZeros64(word))})
				}
			}
		}
	}
	d.alone.each(func(key []byte) { f(DeviceID{Host: [32]byte(key)}) })
}
