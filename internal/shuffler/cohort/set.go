package cohort

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	mathbits "math/bits"
	"slices"
)

// word is 32 devices of one host that follow each other, as a bit each. at is the number of the first by 32.
type word struct {
	host [32]byte
	at   uint32
	bits uint32
}

// earlier are the devices that were enrolled as they arrived in the epochs before the latest.
func (s *State) earlier() []word {
	all := make([]word, 0, len(s.devices))
	for key, bits := range s.devices {
		all = append(all, word{*s.hosts.keys.at(int(key.host)), key.number, bits})
	}
	return all
}

// encodeSet writes a set of devices: of each host, in ascending order of keys, its key, the number of its words, and of
// each word in ascending order how far it is behind the one before, and its bits. Numbers are unsigned varints, bits
// four bytes, big-endian. It changes the order of the words.
func encodeSet(all []word) (b []byte) {
	slices.SortFunc(all, func(a, b word) int {
		return cmp.Or(bytes.Compare(a.host[:], b.host[:]), cmp.Compare(a.at, b.at))
	})
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].host == all[0].host {
			n++
		}
		b = append(b, all[0].host[:]...)
		b = binary.AppendUvarint(b, uint64(n))
		next := uint32(0)
		for _, w := range all[:n] {
			b = binary.AppendUvarint(b, uint64(w.at-next))
			b = binary.BigEndian.AppendUint32(b, w.bits)
			next = w.at + 1
		}
		all = all[n:]
	}
	return b
}

// maxWord is the largest number of a word.
const maxWord = 1<<32/wordBits - 1

var errSet = errors.New("a set of devices is not as this program writes it")

// decodeSet reads what encodeSet wrote, and nothing else.
func decodeSet(b []byte, f func(host [32]byte, at, bits uint32)) error {
	var last []byte
	number := func() (n uint64, ok bool) {
		n, width := binary.Uvarint(b)
		if width <= 0 || width > 1 && b[width-1] == 0 {
			return 0, false
		}
		b = b[width:]
		return n, true
	}
	for len(b) > 0 {
		if len(b) < 32 || last != nil && bytes.Compare(last, b[:32]) >= 0 {
			return errSet
		}
		last = b[:32]
		b = b[32:]
		n, ok := number()
		if !ok || n == 0 {
			return errSet
		}
		for next := uint64(0); n > 0; n-- {
			behind, ok := number()
			if !ok || behind > maxWord || next+behind > maxWord || len(b) < 4 {
				return errSet
			}
			bits := binary.BigEndian.Uint32(b)
			if b = b[4:]; bits == 0 {
				return errSet
			}
			f([32]byte(last), uint32(next+behind), bits)
			next += behind + 1
		}
	}
	return nil
}

// words are the set's devices.
func (d *devices) words() (all []word) {
	for host, pages := range d.many {
		for at, p := range pages {
			for i, both := range p {
				for half := range uint32(2) {
					if bits := uint32(both >> (wordBits * half)); bits != 0 {
						all = append(all, word{host, at*(pageBits/wordBits) + uint32(2*i) + half, bits})
					}
				}
			}
		}
	}
	d.alone.each(func(key []byte) { all = append(all, word{[32]byte(key), 0, 1}) })
	return all
}

// devicesOf reads a set that encodeSet wrote.
func devicesOf(b []byte) (devices, error) {
	d := newDevices()
	err := decodeSet(b, func(host [32]byte, at, word uint32) {
		for ; word != 0; word &= word - 1 {
			d.add(DeviceID{host, at*wordBits + uint32(mathbits.TrailingZeros32(word))})
		}
	})
	return d, err
}
