package empirical

import (
	"slices"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

// mechanism makes the counts of a round as devices and servers do, with the fault that the options name.
type mechanism struct {
	full   []protocol.Encoding // with all noise bits that are drawn
	quiet  []protocol.Encoding // without any
	null   [][]float64         // vectors of the null record
	others int                 // devices beside the canary's that report
	server []uint64
	fault  Fault
	copied int
}

func newMechanism(o Options, v view, encodings []protocol.Encoding, null [][]float64) *mechanism {
	m := &mechanism{full: slices.Clone(encodings), quiet: slices.Clone(encodings), null: null, others: v.reports - 1,
		server: slices.Clone(v.server), fault: o.Fault, copied: o.Copied}
	for i := range encodings {
		m.quiet[i].NoiseBits = 0
		if o.Fault == HalfNoise {
			m.full[i].NoiseBits /= 2
			m.server[i] /= 2
		}
	}
	switch o.Fault { // what the canary counts for beside one report takes other people's place
	case Copies:
		m.others = max(0, m.others-o.Copied)
	case Twice:
		m.others = max(0, m.others-1)
	}
	return m
}

// coordinates is the length of counts: the coordinates of all releases, one release after another.
func (m *mechanism) coordinates() (n int) {
	for _, e := range m.full {
		n += len(e.Coordinates)
	}
	return n
}

// report adds one device's ones to counts, times over.
func report(counts []uint64, encodings []protocol.Encoding, vectors [][]float64, times uint64, src protocol.Source,
	ones []uint32) ([]uint32, error) {
	at := 0
	for i, e := range encodings {
		var err error
		if ones, err = e.Encode(ones, vectors[i], src); err != nil {
			return ones, err
		}
		for _, n := range ones {
			counts[at] += times * uint64(n)
			at++
		}
	}
	return ones, nil
}

// addOthers adds the reports of all devices but the canary's.
func (m *mechanism) addOthers(counts []uint64, src protocol.Source) (err error) {
	var ones []uint32
	for i := range m.others {
		encodings := m.full
		if m.fault == OneNoise && i > 0 {
			encodings = m.quiet
		}
		if ones, err = report(counts, encodings, m.null, 1, src, ones); err != nil {
			return err
		}
	}
	return nil
}

// addCanary adds what a record of the canary counts for.
func (m *mechanism) addCanary(counts []uint64, vectors [][]float64, src protocol.Source) error {
	encodings, times := m.full, uint64(1)
	switch m.fault {
	case OneNoise:
		encodings = m.quiet
	case Copies:
		times += uint64(m.copied)
	}
	ones, err := report(counts, encodings, vectors, times, src, nil)
	if err == nil && m.fault == Twice {
		_, err = report(counts, encodings, vectors, 1, src, ones)
	}
	return err
}

// addServers adds the noise of servers.
func (m *mechanism) addServers(counts []uint64, src protocol.Source) error {
	at := 0
	for i, e := range m.full {
		next := at + len(e.Coordinates)
		if err := e.AddServerNoise(counts[at:next], m.server[i], src); err != nil {
			return err
		}
		at = next
	}
	return nil
}
