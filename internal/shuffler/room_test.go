package shuffler

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// warned reports whether people are told of something.
func (s *scene) warned(of string) bool {
	return slices.ContainsFunc(s.shuffler.Snapshot().Warnings, func(w string) bool { return strings.Contains(w, of) })
}

// A broker that keeps 20 reports of one host, and a cohort of 40: before this was looked at, 40 people of one host were
// enrolled, the broker took 20 reports, and the cohort was destroyed with the others' only record. The host gets 20
// slots, and the shuffler says why, from the beginning. Once the broker keeps more the cohort fills, and every report
// of it is there.
func TestNobodyIsEnrolledWhoseReportTheBrokerCannotKeep(t *testing.T) {
	t.Parallel()
	const kept, people = 20, 40
	provisioned := bus.ProvisionOptions{HostReports: kept}
	s := newScene(t, func(_ *broker.Options, p *bus.ProvisionOptions) {
		p.HostReports = kept
		provisioned = *p
	})
	s.start()
	a := s.Announcement(glm.Practical, people)
	a.Timing.RewardWindow, a.Timing.Grace = 0, 10*time.Minute
	s.open(a)
	const says = "has 40 places, and the broker keeps 20 reports of one host"
	if !s.warned(says) {
		t.Errorf("people are told %q", s.shuffler.Snapshot().Warnings)
	}
	s.enrol(kept)
	for device := uint32(kept); device < people; device++ {
		if r := s.ask(device); r.Enrolled || r.Refusal != wire.RefusalSponsorShare {
			t.Fatalf("device %d: %+v", device, r)
		}
	}
	if r := s.ask(3); !r.Enrolled || r.Slot != 3 {
		t.Errorf("a device that holds a slot asks again: %+v", r)
	}
	other, credential := s.Host(people) // places that one host does not get are there for others
	r := s.request(0)
	r.Credential = credential
	signed, _ := s.Sign(r, other)
	if reply := s.askRaw(signed); !reply.Enrolled || reply.Slot != kept {
		t.Fatalf("another host's device: %+v", reply)
	}

	provisioned.HostReports = people
	s.must(bus.Provision(t.Context(), s.Connect(bus.Admin), provisioned))
	s.eventually("told no more", func() bool { return !s.warned(says) })
	for device := uint32(kept); device < people-1; device++ {
		if r := s.ask(device); !r.Enrolled || r.Slot != device+1 {
			t.Fatalf("device %d: %+v", device, r)
		}
	}
	for device := range uint32(people - 1) {
		s.send(s.report(device, func(r *wire.Report) {
			if device >= kept {
				r.Slot = device + 1
			}
		}))
	}
	s.pass(people - 1)
	if m := s.manifest(1, 0); m.Reports != people-1 || m.Outcome != wire.Released {
		t.Errorf("%+v", m)
	}
}

// An epoch is not opened, and nobody is enrolled, where the broker takes no report of its size, or has no room for all
// of them; the shuffler says what to raise.
func TestAnEpochThatTheBrokerHasNoRoomForIsNotOpened(t *testing.T) {
	t.Parallel()
	size := int64(0)
	for flag, limit := range map[string]func(*bus.ProvisionOptions){
		"--max-report-size": func(p *bus.ProvisionOptions) { p.ReportSize = size - 1 },
		"--max-report-bytes": func(p *bus.ProvisionOptions) {
			p.HostReports, p.ReportSize, p.MaxReportBytes = 2, size,
				12*size-1
		},
		"": func(p *bus.ProvisionOptions) {
			p.HostReports, p.ReportSize, p.MaxReportBytes = 6, size,
				12*size
		},
	} {
		if size == 0 { // of a report of the scene's announcements
			s := newScene(t)
			s.start()
			s.open(s.announcement())
			s.shuffler.mu.Lock()
			size = int64(wire.EnvelopeSize(s.shuffler.state.Begins().Layout.Size()))
			s.shuffler.mu.Unlock()
			s.must(s.stop())
		}
		s := newScene(t, func(_ *broker.Options, p *bus.ProvisionOptions) { limit(p) })
		s.start()
		if flag == "" {
			s.open(s.announcement())
			continue
		}
		s.opened = s.announcement()
		s.digest = s.Announce(s.analyzer, s.opened)
		s.eventually("refused for "+flag, func() bool { return s.warned(flag) })
		if r := s.ask(0); r.Enrolled || r.Refusal != wire.RefusalWrongEpoch {
			t.Errorf("%s: %+v", flag, r)
		}
		if s.warned("admission.devices") {
			t.Errorf("%s: people are told %q", flag, s.shuffler.Snapshot().Warnings)
		}
	}
}
