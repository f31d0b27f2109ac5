package cohort

import (
	"maps"
	mathbits "math/bits"
	"slices"
)

// devices is a set of devices that is kept for ever, as of those that were in a cohort or registered. A host's devices
// are numbered from 0, so it holds one bit for each, in pages: a third of a byte for each device of a host that has
// thousands, and about 150 bytes for one that is alone, which is less than a cohort spends on it.
type devices map[[32]byte]map[uint32]*page

const pageBits = 512

// page says of each of pageBits devices whether it is in the set.
type page [pageBits / 64]uint64

func (d devices) has(id DeviceID) bool {
	p := d[id.Host][id.Number/pageBits]
	return p != nil && p[id.Number%pageBits/64]&(1<<(id.Number%64)) != 0
}

func (d devices) add(id DeviceID) {
	pages := d[id.Host]
	if pages == nil {
		pages = map[uint32]*page{}
		d[id.Host] = pages
	}
	p := pages[id.Number/pageBits]
	if p == nil {
		p = new(page)
		pages[id.Number/pageBits] = p
	}
	p[id.Number%pageBits/64] |= 1 << (id.Number % 64)
}

// each calls f with every device: host by host, in no order, and those of a host in ascending order.
func (d devices) each(f func(DeviceID)) {
	for host, pages := range d {
		for _, at := range slices.Sorted(maps.Keys(pages)) {
			for i, word := range pages[at] {
				for ; word != 0; word &= word - 1 {
					f(DeviceID{host, at*pageBits + uint32(i*64+mathbits.TrailingZeros64(word))})
				}
			}
		}
	}
}
