package hostile_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/riffle-dp/riffle/internal/analyzer"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/randomizer"
	"github.com/riffle-dp/riffle/internal/shuffler"
	"github.com/riffle-dp/riffle/pkg/channel/registry"
)

// faults are what a malicious broker does with what passes through it. Where a function is nil it does as it should.
type faults struct {
	// To hosts.
	announcement func(a bus.Announcement, show func(bus.Announcement) error) error
	keys         func(payload []byte, show func([]byte) error) error
	latest       func(payload []byte) []byte // the newest key set, for who asks
	enrol        func(ctx context.Context, request []byte, ask asking) ([]byte, error)
	report       func(envelope []byte, publish func([]byte) error) error
	// To the shuffler.
	opened   func(a bus.Announcement, show func(bus.Announcement) error) error
	deliver  func(d *bus.Delivery, hand func(*bus.Delivery))
	prepared func(index uint32, answer []byte) []byte
	// Between the shuffler and the analyzer.
	chunk    func(index uint32, payload []byte, publish func([]byte) error) error
	mixed    func(m *bus.Mixed, hand func(*bus.Mixed))
	manifest func(payload []byte, err error) ([]byte, error)
	audited  func(logged bool) bool
	shown    func(to bus.Role, s bus.Statement) bool // of the audit log, to shuffler and analyzer
	altered  func(to bus.Role, s bus.Statement) bus.Statement
	forked   *fork
}

type asking func(ctx context.Context, request []byte) ([]byte, error)

// layer is a malicious broker between the roles and a real one.
type layer struct {
	mu sync.Mutex
	f  faults
	*arrived
}

// arrived are the reports that reached the real broker.
type arrived struct {
	lock sync.Mutex
	kept map[uint64][][]byte // by epoch, each once
}

// beside is the same broker as it is to another host.
func (l *layer) beside() *layer { return &layer{arrived: l.arrived} }

// set changes what the broker does from now on.
func (l *layer) set(f faults) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.f = f
}

func (l *layer) now() faults {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.f
}

func (s *arrived) keep(epoch uint64, envelope []byte) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if !slices.ContainsFunc(s.kept[epoch], func(e []byte) bool { return bytes.Equal(e, envelope) }) {
		s.kept[epoch] = append(s.kept[epoch], bytes.Clone(envelope))
	}
}

// forget has a report count for nothing.
func (s *arrived) forget(epoch uint64, envelope []byte) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.kept[epoch] = slices.DeleteFunc(s.kept[epoch], func(e []byte) bool { return bytes.Equal(e, envelope) })
}

// reports are those of an epoch that reached the real broker.
func (s *arrived) reports(epoch uint64) [][]byte {
	s.lock.Lock()
	defer s.lock.Unlock()
	return slices.Clone(s.kept[epoch])
}

type hostSide struct {
	randomizer.Broker
	l *layer
}

func (s hostSide) WatchAnnouncements(ctx context.Context, handler func(bus.Announcement) error) error {
	return s.Broker.WatchAnnouncements(ctx, func(a bus.Announcement) error {
		if f := s.l.now().announcement; f != nil {
			return f(a, handler)
		}
		return handler(a)
	})
}

func (s hostSide) ReadAnnouncements(ctx context.Context) ([]bus.Announcement, error) {
	all, err := s.Broker.ReadAnnouncements(ctx)
	f := s.l.now().announcement
	if f == nil || err != nil {
		return all, err
	}
	var shown []bus.Announcement
	for _, a := range all {
		if err := f(a, func(a bus.Announcement) error { shown = append(shown, a); return nil }); err != nil {
			return nil, err
		}
	}
	return shown, nil
}

func (s hostSide) WatchKeys(ctx context.Context, handler func(bus.Role, []byte) error) error {
	return s.Broker.WatchKeys(ctx, func(role bus.Role, payload []byte) error {
		if f := s.l.now().keys; f != nil && role == bus.Shuffler {
			return f(payload, func(b []byte) error { return handler(role, b) })
		}
		return handler(role, payload)
	})
}

func (s hostSide) ReadKeys(ctx context.Context, role bus.Role) ([]byte, error) {
	payload, err := s.Broker.ReadKeys(ctx, role)
	if f := s.l.now().latest; f != nil && err == nil && role == bus.Shuffler {
		payload = f(payload)
	}
	return payload, err
}

func (s hostSide) EnrolOnce(ctx context.Context, request []byte) ([]byte, error) {
	if f := s.l.now().enrol; f != nil {
		return f(ctx, request, s.Broker.EnrolOnce)
	}
	return s.Broker.EnrolOnce(ctx, request)
}

func (s hostSide) PublishReport(ctx context.Context, epoch uint64, round uint32, id string, envelope []byte) error {
	copies := 0
	publish := func(envelope []byte) error {
		name := id
		if copies++; copies > 1 {
			name = fmt.Sprintf("%s-%d", id, copies) // the broker stores each name once
		}
		err := s.Broker.PublishReport(ctx, epoch, round, name, envelope)
		if err == nil {
			s.l.keep(epoch, envelope)
		}
		return err
	}
	if f := s.l.now().report; f != nil {
		return f(envelope, publish)
	}
	return publish(envelope)
}

type shufflerSide struct {
	shuffler.Broker
	l *layer
}

func (s shufflerSide) WatchAnnouncements(ctx context.Context, handler func(bus.Announcement) error) error {
	return s.Broker.WatchAnnouncements(ctx, func(a bus.Announcement) error {
		if f := s.l.now().opened; f != nil {
			return f(a, handler)
		}
		return handler(a)
	})
}

func (s shufflerSide) ReceiveReports(ctx context.Context, handler func(*bus.Delivery)) error {
	return s.Broker.ReceiveReports(ctx, func(d *bus.Delivery) {
		if f := s.l.now().deliver; f != nil {
			f(d, handler)
			return
		}
		handler(d)
	})
}

func (s shufflerSide) ReadPrepared(ctx context.Context, epoch uint64, round, index uint32) ([]byte, error) {
	answer, err := s.Broker.ReadPrepared(ctx, epoch, round, index)
	if f := s.l.now().prepared; f != nil && err == nil {
		answer = f(index, answer)
	}
	return answer, err
}

func (s shufflerSide) PublishChunk(ctx context.Context, epoch uint64, round, index uint32, payload []byte) error {
	publish := func(b []byte) error { return s.Broker.PublishChunk(ctx, epoch, round, index, b) }
	if f := s.l.now().chunk; f != nil {
		return f(index, payload, publish)
	}
	return publish(payload)
}

type analyzerSide struct {
	analyzer.Broker
	l *layer
}

func (s analyzerSide) ReceiveMixed(ctx context.Context, handler func(*bus.Mixed)) error {
	return s.Broker.ReceiveMixed(ctx, func(m *bus.Mixed) {
		if f := s.l.now().mixed; f != nil {
			f(m, handler)
			return
		}
		handler(m)
	})
}

func (s analyzerSide) ReadManifest(ctx context.Context, epoch uint64, round uint32) ([]byte, error) {
	payload, err := s.Broker.ReadManifest(ctx, epoch, round)
	if f := s.l.now().manifest; f != nil {
		return f(payload, err)
	}
	return payload, err
}

func (s analyzerSide) Audited(ctx context.Context, role bus.Role, kind string, payload []byte) (bool, error) {
	logged, err := s.Broker.Audited(ctx, role, kind, payload)
	if f := s.l.now().audited; f != nil && err == nil {
		logged = f(logged)
	}
	return logged, err
}

func (s shufflerSide) SaidSince(ctx context.Context, role bus.Role, from uint64, f func(bus.Statement) error) error {
	return s.Broker.SaidSince(ctx, role, from, s.l.visible(bus.Shuffler, f))
}

// visible is a handler that gets what the broker shows to a role.
func (l *layer) visible(to bus.Role, handler func(bus.Statement) error) func(bus.Statement) error {
	return func(s bus.Statement) error {
		now := l.now()
		if now.shown != nil && !now.shown(to, s) {
			return nil
		}
		if now.altered != nil {
			s = now.altered(to, s)
		}
		return handler(s)
	}
}

// payloadSize is the length of the payload of every report of a round.
func payloadSize(r *round) int { return registry.PayloadSize(r.Plan.Channel, r.Encodings) }
