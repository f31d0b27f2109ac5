package fakebroker

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/riffle-dp/riffle/internal/bus"
)

// message is one stored message.
type message struct {
	subject  string
	sequence uint64
	at       time.Time
	header   nats.Header
	data     []byte
	life     time.Duration // 0: as the stream
}

// id names it while the stream looks for duplicates; empty: none.
func (m *message) id() string { return m.header.Get(jetstream.MsgIDHeader) }

// headers counts the bytes of its headers on the wire.
func (m *message) headers() int {
	if len(m.header) == 0 {
		return 0
	}
	n := len("NATS/1.0\r\n") + len("\r\n")
	for name, values := range m.header {
		n += len(name) + len(": ") + len(values[0]) + len("\r\n")
	}
	return n
}

// record is the message as a client gets it.
func (m *message) record() bus.Record {
	return bus.Record{Subject: m.subject, Sequence: m.sequence, Time: m.at, Header: m.header, Data: bytes.Clone(m.data)}
}

// size is what the server counts for it (fileStoreMsgSize).
func (m *message) size() int64 {
	n := 22 + len(m.subject) + len(m.data) + 8
	if h := m.headers(); h > 0 {
		n += 4 + h
	}
	return int64(n)
}

// stream keeps messages as JetStream's file store does. The broker's lock guards it.
type stream struct {
	b        *Broker
	config   jetstream.StreamConfig
	consumer *consumer // nil: none

	messages []*message // by sequence
	bytes    int64
	last     uint64            // sequence of the last message ever stored
	first    uint64            // of the first that is stored; last+1 where none is
	counts   map[string]int    // by subject
	ids      map[string]uint64 // by message id, within the window
	window   []identified      // the ids, oldest first
}

type identified struct {
	id string
	at time.Time
}

func newStream(b *Broker, config jetstream.StreamConfig) *stream {
	return &stream{b: b, config: config, first: 1, counts: map[string]int{}, ids: map[string]uint64{}}
}

// publish stores a message, in the order of checks of the server: size, condition, duplicate, limits. It returns the
// sequence of the message, or of the one that it repeats.
func (s *stream) publish(m message) (uint64, error) {
	s.age()
	if limit := int(s.config.MaxMsgSize); limit >= 0 && m.headers()+len(m.data) > limit {
		return 0, bus.ErrTooLarge
	}
	if want := m.header.Get(jetstream.ExpectedLastSubjSeqHeader); want != "" {
		newest := uint64(0)
		of := cmp.Or(m.header.Get(jetstream.ExpectedLastSubjSeqSubjHeader), m.subject)
		if last := s.newest(of); last != nil {
			newest = last.sequence
		}
		if want != strconv.FormatUint(newest, 10) {
			return 0, bus.ErrTaken
		}
	}
	if id := m.id(); id != "" {
		if sequence, ok := s.ids[id]; ok {
			return sequence, nil
		}
	}
	if err := s.room(&m); err != nil {
		return 0, err
	}
	m.sequence, m.at = s.last+1, s.b.now()
	s.store(&m)
	s.b.noteWrite(true, func() { s.unstore(&m) })
	if n := int(s.config.MaxMsgsPerSubject); n > 0 {
		for s.counts[m.subject] > n {
			oldest := s.next(m.subject, 0)
			s.remove(func(old *message) bool { return old == oldest })
		}
	}
	for limit := s.config.MaxBytes; limit > 0 && s.bytes > limit && len(s.messages) > 0; {
		oldest := s.messages[0]
		s.remove(func(old *message) bool { return old == oldest })
	}
	return m.sequence, nil
}

// room reports whether a message may be stored.
func (s *stream) room(m *message) error {
	if s.b.full {
		return bus.ErrFull
	}
	if s.config.Discard != jetstream.DiscardNew {
		return nil
	}
	if n := int(s.config.MaxMsgsPerSubject); n > 0 && s.counts[m.subject] >= n && s.config.DiscardNewPerSubject {
		return bus.ErrTaken
	}
	if n := s.config.MaxMsgs; n > 0 && int64(len(s.messages)) >= n {
		return bus.ErrFull
	}
	if n := s.config.MaxBytes; n > 0 && s.bytes+m.size() > n {
		return bus.ErrFull
	}
	return nil
}

// store appends a message.
func (s *stream) store(m *message) {
	if len(s.messages) == 0 {
		s.first = m.sequence
	}
	s.messages = append(s.messages, m)
	s.last = m.sequence
	s.bytes += m.size()
	s.counts[m.subject]++
	s.identify(m)
	if s.consumer != nil {
		s.consumer.dispatch()
	}
}

// identify makes the message's id known.
func (s *stream) identify(m *message) {
	if id := m.id(); id != "" {
		s.ids[id] = m.sequence
		s.window = append(s.window, identified{id, m.at})
	}
}

// unstore takes back the last message that was stored, and that no disk has. Its sequence is given again.
func (s *stream) unstore(m *message) {
	s.drop(func(old *message) bool { return old == m })
	s.last = min(s.last, m.sequence-1)
	s.first = min(s.first, s.last+1)
}

// recover is what a start does: the ids are those of stored messages.
func (s *stream) recover() {
	clear(s.ids)
	s.window = nil
	for _, m := range s.messages {
		s.identify(m)
	}
	if s.consumer != nil {
		s.consumer.recover()
	}
}

// age forgets the ids out of the window, and drops messages whose time is over.
func (s *stream) age() {
	now := s.b.now()
	for len(s.window) > 0 && now.Sub(s.window[0].at) >= s.config.Duplicates {
		delete(s.ids, s.window[0].id)
		s.window = s.window[1:]
	}
	if s.config.MaxAge > 0 || s.config.AllowMsgTTL {
		s.remove(func(m *message) bool {
			age := now.Sub(m.at)
			return s.config.MaxAge > 0 && age >= s.config.MaxAge || m.life > 0 && age >= m.life
		})
	}
}

// remove drops messages for good, and tells the consumer.
func (s *stream) remove(which func(*message) bool) {
	if s.drop(which) > 0 && s.consumer != nil {
		s.consumer.forgetPurged()
	}
}

// drop drops messages and returns how many.
func (s *stream) drop(which func(*message) bool) int {
	before := len(s.messages)
	s.messages = slices.DeleteFunc(s.messages, func(m *message) bool {
		if !which(m) {
			return false
		}
		s.bytes -= m.size()
		if s.counts[m.subject]--; s.counts[m.subject] == 0 {
			delete(s.counts, m.subject)
		}
		return true
	})
	if len(s.messages) > 0 {
		s.first = s.messages[0].sequence
	} else if before > 0 {
		s.first = s.last + 1
	}
	return before - len(s.messages)
}

// purge drops what matches the filter (empty: everything) before a sequence (0: whatever its sequence).
func (s *stream) purge(filter string, before uint64) {
	s.age()
	var gone []*message
	s.remove(func(m *message) bool {
		doomed := (filter == "" || matches(filter, m.subject)) && (before == 0 || m.sequence < before)
		if doomed {
			gone = append(gone, m)
		}
		return doomed
	})
	last := s.last
	if filter == "" && before > s.last+1 { // the server lets the sequences go on behind the purge
		s.last, s.first = before-1, before
		if s.consumer != nil {
			s.consumer.forgetPurged()
		}
	}
	if len(gone) > 0 || s.last != last {
		s.b.noteWrite(true, func() { s.last = last; s.bring(gone) })
	}
}

// bring puts messages back that were removed, and whose removal is on no disk.
func (s *stream) bring(gone []*message) {
	for _, m := range gone {
		at, there := slices.BinarySearchFunc(s.messages, m.sequence, func(have *message, want uint64) int {
			return cmp.Compare(have.sequence, want)
		})
		if there {
			continue
		}
		s.messages = slices.Insert(s.messages, at, m)
		s.bytes += m.size()
		s.counts[m.subject]++
		s.first = s.messages[0].sequence
	}
}

// at is the message with a sequence; nil: none.
func (s *stream) at(sequence uint64) *message {
	i, ok := slices.BinarySearchFunc(s.messages, sequence, func(m *message, want uint64) int {
		return cmp.Compare(m.sequence, want)
	})
	if !ok {
		return nil
	}
	return s.messages[i]
}

// next is the first message from a sequence on that matches the filter; nil: none.
func (s *stream) next(filter string, from uint64) *message {
	i, _ := slices.BinarySearchFunc(s.messages, from, func(m *message, want uint64) int {
		return cmp.Compare(m.sequence, want)
	})
	for _, m := range s.messages[i:] {
		if filter == "" || matches(filter, m.subject) {
			return m
		}
	}
	return nil
}

// newest is the last message that matches the filter; nil: none.
func (s *stream) newest(filter string) *message {
	if !strings.ContainsAny(filter, "*>") && s.counts[filter] == 0 {
		return nil
	}
	for _, m := range slices.Backward(s.messages) {
		if matches(filter, m.subject) {
			return m
		}
	}
	return nil
}

// matches reports whether a subject matches a filter of NATS: * stands for one token, > for one or more at the end.
func matches(filter, subject string) bool {
	for {
		f, filterRest, more := strings.Cut(filter, ".")
		if f == ">" {
			return subject != ""
		}
		t, rest, longer := strings.Cut(subject, ".")
		if f != "*" && f != t {
			return false
		}
		if !more || !longer {
			return more == longer
		}
		filter, subject = filterRest, rest
	}
}
