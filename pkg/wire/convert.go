package wire

import (
	"fmt"
	"time"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"google.golang.org/protobuf/proto"
)

// messageOf converts a statement to its message. The message may still be out of range: check finds that. What the message cannot
// carry at all is an error here.
func messageOf(statement any) (proto.Message, error) {
	switch s := statement.(type) {
	case *plan.Announcement:
		return announcementMessage(s)
	case *KeySet:
		return &rifflev1.KeySet{Deployment: s.Deployment, Keys: s.Keys, Number: s.Number}, nil
	case *Manifest:
		return &rifflev1.Manifest{
			Deployment: s.Deployment, Epoch: s.Epoch, Round: s.Round, Announcement: s.Announcement,
			Outcome: rifflev1.Outcome(s.Outcome), Enrolled: s.Enrolled, Reports: s.Reports, Messages: s.Messages,
			Chunks: s.Chunks, ChunksDigest: s.ChunksDigest, ReportsDigest: s.ReportsDigest,
		}, nil
	case *Counts:
		m := &rifflev1.Counts{
			Deployment: s.Deployment, Epoch: s.Epoch, Round: s.Round, Announcement: s.Announcement, Manifest: s.Manifest,
			Reports: s.Reports, Destroyed: s.Destroyed,
		}
		for _, r := range s.Releases {
			m.Releases = append(m.Releases, &rifflev1.ReleaseCounts{Ones: r.Ones})
		}
		return m, nil
	case *Credential:
		return &rifflev1.Credential{Deployment: s.Deployment, HostKey: s.HostKey, Devices: s.Devices}, nil
	case *EnrolRequest:
		m := &rifflev1.EnrolRequest{
			Deployment: s.Deployment, Epoch: s.Epoch, Announcement: s.Announcement, Device: s.Device,
		}
		if len(s.Credential) > 0 {
			m.Credential = new(rifflev1.Signed)
			if err := unmarshal(s.Credential, m.Credential); err != nil {
				return nil, field("credential", "is not a signed statement: %v", err)
			}
		}
		return m, nil
	case *EnrolReply:
		after, err := milliseconds("report_after_ms", s.ReportAfter)
		return &rifflev1.EnrolReply{
			Request: s.Request, Enrolled: s.Enrolled, Refusal: rifflev1.Refusal(s.Refusal), Slot: s.Slot,
			ReportAfterMs: after, Held: s.Held,
		}, err
	}
	return nil, fmt.Errorf("wire: %T is no statement", statement)
}

// emptyMessage is the message that a statement of this type is decoded into.
func emptyMessage(statement any) proto.Message {
	switch statement.(type) {
	case *plan.Announcement:
		return new(rifflev1.Announcement)
	case *KeySet:
		return new(rifflev1.KeySet)
	case *Manifest:
		return new(rifflev1.Manifest)
	case *Counts:
		return new(rifflev1.Counts)
	case *Credential:
		return new(rifflev1.Credential)
	case *EnrolRequest:
		return new(rifflev1.EnrolRequest)
	}
	return new(rifflev1.EnrolReply)
}

// statementOf converts a message that check has passed.
func statementOf(message proto.Message) any {
	switch m := message.(type) {
	case *rifflev1.Announcement:
		return announcementOf(m)
	case *rifflev1.KeySet:
		return &KeySet{Deployment: m.Deployment, Keys: m.Keys, Number: m.Number}
	case *rifflev1.Manifest:
		return &Manifest{
			Deployment: m.Deployment, Epoch: m.Epoch, Round: m.Round, Announcement: m.Announcement,
			Outcome: Outcome(m.Outcome), Enrolled: m.Enrolled, Reports: m.Reports, Messages: m.Messages, Chunks: m.Chunks,
			ChunksDigest: m.ChunksDigest, ReportsDigest: m.ReportsDigest,
		}
	case *rifflev1.Counts:
		s := &Counts{
			Deployment: m.Deployment, Epoch: m.Epoch, Round: m.Round, Announcement: m.Announcement, Manifest: m.Manifest,
			Reports: m.Reports, Destroyed: m.Destroyed,
		}
		for _, r := range m.Releases {
			s.Releases = append(s.Releases, ReleaseCounts{r.Ones})
		}
		return s
	case *rifflev1.Credential:
		return &Credential{Deployment: m.Deployment, HostKey: m.HostKey, Devices: m.Devices}
	case *rifflev1.EnrolRequest:
		credential, _ := marshal(m.Credential) // it was decoded from these bytes
		return &EnrolRequest{
			Deployment: m.Deployment, Epoch: m.Epoch, Announcement: m.Announcement, Device: m.Device, Credential: credential,
		}
	case *rifflev1.EnrolReply:
		return &EnrolReply{
			Request: m.Request, Enrolled: m.Enrolled, Refusal: Refusal(m.Refusal), Slot: m.Slot,
			ReportAfter: duration(m.ReportAfterMs), Held: m.Held,
		}
	}
	return nil
}

func announcementMessage(a *plan.Announcement) (*rifflev1.Announcement, error) {
	policy, err := policyMessage(&a.Policy)
	if err != nil {
		return nil, inside("policy.", err)
	}
	m := &rifflev1.Announcement{
		Deployment: a.Deployment, Epoch: a.Epoch, Round: a.Round, Previous: a.Previous, Policy: policy, Reference: a.Reference,
		AnalyzerKey: a.AnalyzerKey, Final: a.Final,
	}
	if a.Final {
		if n := len(a.Plan.Rounds) + len(a.Encodings); n > 0 || a.Cohort != (plan.Cohort{}) || a.Timing != (plan.Timing{}) {
			return nil, field("final", "is set, but there is something to report on")
		}
		return m, nil
	}
	m.Plan = planMessage(a.Plan)
	for i, e := range a.Encodings {
		if r, ok := announcedRelease(a, i); ok && (e.NoiseBits != r.NoiseBits || e.Bias != r.Bias) {
			return nil, field(fmt.Sprintf("encodings[%d]", i), "has other noise than the release of the plan")
		}
		m.Encodings = append(m.Encodings, encodingMessage(e))
	}
	m.Cohort = &rifflev1.Cohort{Size: a.Cohort.Size, Minimum: a.Cohort.Minimum, MaxDishonest: a.Cohort.MaxDishonest}
	m.Timing, err = timingMessage(a.Timing)
	return m, inside("timing.", err)
}

// announcedRelease is release i of the announced round.
func announcedRelease(a *plan.Announcement, i int) (r plan.Release, ok bool) {
	if int(a.Round) >= len(a.Plan.Rounds) || i >= len(a.Plan.Rounds[a.Round].Releases) {
		return r, false
	}
	return a.Plan.Rounds[a.Round].Releases[i], true
}

func announcementOf(m *rifflev1.Announcement) *plan.Announcement {
	policy, _ := policyOf(m.Policy) // checked
	a := &plan.Announcement{
		Deployment: m.Deployment, Epoch: m.Epoch, Round: m.Round, Previous: m.Previous, Policy: *policy, Reference: m.Reference,
		AnalyzerKey: m.AnalyzerKey, Final: m.Final,
	}
	if m.Final {
		return a
	}
	a.Plan = planOf(m.Plan)
	for i, e := range m.Encodings {
		encoding, _ := encodingOf(e, m.Plan.Rounds[m.Round].Releases[i]) // checked
		a.Encodings = append(a.Encodings, encoding)
	}
	a.Cohort = plan.Cohort{Size: m.Cohort.Size, Minimum: m.Cohort.Minimum, MaxDishonest: m.Cohort.MaxDishonest}
	a.Timing = plan.Timing{
		RewardWindow: duration(m.Timing.RewardWindowMs), Jitter: duration(m.Timing.JitterMs), Grace: duration(m.Timing.GraceMs),
		RoundWindow: duration(m.Timing.RoundWindowMs), Enrolment: duration(m.Timing.EnrolmentMs),
	}
	return a
}

func planMessage(p plan.Plan) *rifflev1.Plan {
	m := &rifflev1.Plan{Epsilon: p.Epsilon, Delta: p.Delta, TailDelta: p.TailDelta}
	for _, round := range p.Rounds {
		r := new(rifflev1.PlannedRound)
		for _, release := range round.Releases {
			r.Releases = append(r.Releases, &rifflev1.PlannedRelease{
				Statistic: statisticMessage(release.Statistic), Shift: release.Shift, NoiseBits: release.NoiseBits,
				Bias: uint32(release.Bias),
			})
		}
		m.Rounds = append(m.Rounds, r)
	}
	return m
}

func planOf(m *rifflev1.Plan) plan.Plan {
	p := plan.Plan{Epsilon: m.Epsilon, Delta: m.Delta, TailDelta: m.TailDelta}
	for _, round := range m.Rounds {
		var r plan.Round
		for _, release := range round.Releases {
			r.Releases = append(r.Releases, plan.Release{
				Statistic: statistics[release.Statistic], Shift: release.Shift, NoiseBits: release.NoiseBits,
				Bias: protocol.Bias(release.Bias),
			})
		}
		p.Rounds = append(p.Rounds, r)
	}
	return p
}

func timingMessage(t plan.Timing) (*rifflev1.Timing, error) {
	m := new(rifflev1.Timing)
	for _, f := range []struct {
		name string
		d    time.Duration
		into *uint32
	}{
		{"reward_window_ms", t.RewardWindow, &m.RewardWindowMs}, {"jitter_ms", t.Jitter, &m.JitterMs},
		{"grace_ms", t.Grace, &m.GraceMs}, {"round_window_ms", t.RoundWindow, &m.RoundWindowMs},
		{"enrolment_ms", t.Enrolment, &m.EnrolmentMs},
	} {
		var err error
		if *f.into, err = milliseconds(f.name, f.d); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// milliseconds is a duration as messages carry it.
func milliseconds(path string, d time.Duration) (uint32, error) {
	ms := d.Milliseconds()
	if ms < 0 || ms > MaxTiming || d != duration(uint32(ms)) {
		return 0, field(path, "is %v, must be 0 to %d whole milliseconds", d, MaxTiming)
	}
	return uint32(ms), nil
}

func duration(ms uint32) time.Duration { return time.Duration(ms) * time.Millisecond }
