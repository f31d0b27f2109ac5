package cohort

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sort"

	"github.com/riffle-dp/riffle/pkg/wire"
)

// An installation is a host with one device that an issuer let in. There may be millions, each for one cohort: the
// shuffler keeps their keys while their epoch lasts, and 16 bytes of each for ever.

// sponsor is who answers for a device, by a key: the issuer of its credential, or else its host.
type sponsor [32]byte

// sponsorOf is who answers for devices of a host that was let in so.
func sponsorOf(host [32]byte, by *wire.IssuerCertificate) sponsor {
	if by != nil {
		return sponsor(by.Key)
	}
	return sponsor(host)
}

// issuerKey is the key of who lets a device in, as events have it; nil for the registrar.
func issuerKey(by *wire.IssuerCertificate) []byte {
	if by == nil {
		return nil
	}
	return by.Key
}

// issuers are those that let an installation in. A certificate bounds how many.
type issuers struct {
	place map[sponsor]int
	all   []issuer // by place
}

type issuer struct {
	key      sponsor
	admitted int    // installations: each is counted once, for the issuer that first let it in
	pooled   keyset // of them, those that registered
}

// find is the issuer with a key; nil where it let nobody in.
func (s *issuers) find(key sponsor) *issuer {
	if at, ok := s.place[key]; ok {
		return &s.all[at]
	}
	return nil
}

// admit counts an installation that was not let in before.
func (s *issuers) admit(key sponsor) *issuer {
	if s.place == nil {
		s.place = map[sponsor]int{}
	}
	at, ok := s.place[key]
	if !ok {
		at = len(s.all)
		s.place[key] = at
		s.all = append(s.all, issuer{key: key, pooled: keyset{width: 32}})
	}
	s.all[at].admitted++
	return &s.all[at]
}

// exhausted reports whether an issuer let in as many installations as its certificate says.
func (s *issuers) exhausted(by *wire.IssuerCertificate) bool {
	if by == nil {
		return false
	}
	known := s.find(sponsor(by.Key))
	return known != nil && known.admitted >= int(by.Installations)
}

// exhausted is what is said of an issuer that let in as many as it may.
const exhausted = "the issuer let in %d installations, as many as its certificate says"

// registeredBy is the issuer by which a host registered; nil where it registered none so.
func (s *issuers) registeredBy(host [32]byte) *issuer {
	for i := range s.all {
		if s.all[i].pooled.has(host[:]) {
			return &s.all[i]
		}
	}
	return nil
}

// markSize is how much of an installation's key is kept for ever. Nobody finds a key with the mark of another person's:
// that takes some 2^106 keys for four million people.
const markSize = 16

// visiting is the bit of a host's place that says that it is an installation of the open epoch.
const visiting = 1 << 31

// roster is who was in a cohort as they arrived, in the epochs before the latest one, and how devices are known in it.
type roster struct {
	hosts   hosts    // that the registrar let in
	devices enrolled // of these hosts
	marks   keyset   // of installations
}

// keyOf is how a device is known while the latest epoch lasts; ok is false if none of its host's is known so.
func (s *roster) keyOf(e *epoch, id DeviceID) (key deviceKey, ok bool) {
	if key, ok = s.hosts.key(id); ok || e == nil {
		return key, ok
	}
	place, ok := e.visitors.find(id.Host)
	return deviceKey{place | visiting, id.Number}, ok
}

// idOf is the device of a key of the latest epoch.
func (s *roster) idOf(e *epoch, key deviceKey) DeviceID {
	if key.host&visiting == 0 {
		return s.hosts.id(key)
	}
	return e.visitors.id(deviceKey{key.host &^ visiting, key.number})
}

// place makes a device known while the latest epoch lasts.
func (s *roster) place(e *epoch, id DeviceID, issued bool) deviceKey {
	if key, ok := s.keyOf(e, id); ok {
		return key
	}
	if issued {
		return deviceKey{e.visitors.add(id.Host) | visiting, id.Number}
	}
	return deviceKey{s.hosts.add(id.Host), id.Number}
}

// holds is how many slots of an epoch devices hold for which the same one answers as for this device.
func (s *roster) holds(e *epoch, id DeviceID, by *wire.IssuerCertificate) int {
	if place, ok := s.hosts.find(id.Host); ok && by == nil {
		if int(place) >= e.held.len() {
			return 0
		}
		return int(*e.held.at(int(place)))
	}
	return e.issued[sponsorOf(id.Host, by)]
}

// leaves remembers for ever that a device was in an epoch's cohort.
func (s *roster) leaves(e *epoch, key deviceKey) {
	if key.host&visiting == 0 {
		s.devices.add(key)
		return
	}
	id := s.idOf(e, key)
	if id.Number == 0 {
		s.marks.add(id.Host[:markSize])
		return
	}
	s.devices.add(deviceKey{s.hosts.add(id.Host), id.Number}) // of a host that the registrar let in, too
}

// before reports whether a device was in the cohort of an epoch before the latest.
func (s *roster) before(id DeviceID) bool {
	key, known := s.hosts.key(id)
	return known && s.devices.has(key) || id.Number == 0 && s.marks.has(id.Host[:markSize])
}

// keyset is a set of keys of one width, in little more than their bytes: they are sorted, in buckets by their first
// bits, over which keys are spread evenly.
type keyset struct {
	width   int
	buckets [][]byte
	n       int
}

const bucketBits = 10

func (s *keyset) find(key []byte) (bucket, at int, ok bool) {
	bucket = int(binary.BigEndian.Uint16(key) >> (16 - bucketBits))
	if s.buckets == nil {
		return bucket, 0, false
	}
	b := s.buckets[bucket]
	at = s.width * sort.Search(len(b)/s.width, func(i int) bool {
		return bytes.Compare(b[i*s.width:(i+1)*s.width], key) >= 0
	})
	return bucket, at, at < len(b) && bytes.Equal(b[at:at+s.width], key)
}

func (s *keyset) has(key []byte) bool {
	_, _, ok := s.find(key)
	return ok
}

func (s *keyset) add(key []byte) {
	bucket, at, ok := s.find(key)
	if ok {
		return
	}
	if s.buckets == nil {
		s.buckets = make([][]byte, 1<<bucketBits)
	}
	s.buckets[bucket] = slices.Insert(s.buckets[bucket], at, key...)
	s.n++
}

func (s *keyset) remove(key []byte) {
	if bucket, at, ok := s.find(key); ok {
		s.buckets[bucket] = slices.Delete(s.buckets[bucket], at, at+s.width)
		s.n--
	}
}

// each calls f with every key, in ascending order.
func (s *keyset) each(f func(key []byte)) {
	for _, b := range s.buckets {
		for key := range slices.Chunk(b, s.width) {
			f(key)
		}
	}
}

// bytes are all keys, in ascending order.
func (s *keyset) bytes() []byte {
	all := make([]byte, 0, s.n*s.width)
	s.each(func(key []byte) { all = append(all, key...) })
	return all
}

// keysetOf reads what bytes wrote, and nothing else.
func keysetOf(width int, all []byte) (s keyset, err error) {
	s.width = width
	if len(all)%width != 0 {
		return s, errSet
	}
	var last []byte
	for key := range slices.Chunk(all, width) {
		if last != nil && bytes.Compare(last, key) >= 0 {
			return s, errSet
		}
		s.add(key)
		last = key
	}
	return s, nil
}
