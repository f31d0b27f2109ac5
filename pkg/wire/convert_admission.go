package wire

import (
	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
)

func credentialMessage(s *Credential) *rifflev1.Credential {
	return &rifflev1.Credential{Deployment: s.Deployment, HostKey: s.HostKey, Devices: s.Devices, FirstKey: s.FirstKey}
}

func credentialOf(m *rifflev1.Credential) *Credential {
	return &Credential{Deployment: m.Deployment, HostKey: m.HostKey, Devices: m.Devices, FirstKey: m.FirstKey}
}

func enrolRequestMessage(s *EnrolRequest) *rifflev1.EnrolRequest {
	credential, _ := decodeSigned(s.Credential) // checkEnrolRequest has decoded it
	return &rifflev1.EnrolRequest{
		Deployment: s.Deployment, Epoch: s.Epoch, Announcement: s.Announcement, Device: s.Device,
		Credential: credential, Further: s.Further, Nonces: s.Nonces,
	}
}

func enrolRequestOf(m *rifflev1.EnrolRequest) *EnrolRequest {
	s := &EnrolRequest{
		Deployment: m.Deployment, Epoch: m.Epoch, Announcement: m.Announcement, Device: m.Device, Further: m.Further,
		Nonces: m.Nonces,
	}
	if m.Credential != nil {
		s.Credential, _ = marshal(m.Credential) // it was decoded, so it can be encoded
	}
	return s
}

func enrolReplyMessage(s *EnrolReply) *rifflev1.EnrolReply {
	m := &rifflev1.EnrolReply{
		Request: s.Request, Enrolled: s.Enrolled, Refusal: rifflev1.Refusal(s.Refusal), Slot: s.Slot,
		ReportAfterMs: milliseconds(s.ReportAfter), Held: s.Held, Commitment: s.Commitment, Pool: s.Pool, Draw: s.Draw,
	}
	for _, f := range s.Further {
		m.Further = append(m.Further, &rifflev1.FurtherReply{
			Enrolled: f.Enrolled, Refusal: rifflev1.Refusal(f.Refusal), Slot: f.Slot,
			ReportAfterMs: milliseconds(f.ReportAfter), Held: f.Held, Commitment: f.Commitment,
		})
	}
	return m
}

func enrolReplyOf(m *rifflev1.EnrolReply) *EnrolReply {
	s := &EnrolReply{
		Request: m.Request, Enrolled: m.Enrolled, Refusal: Refusal(m.Refusal), Slot: m.Slot,
		ReportAfter: duration(m.ReportAfterMs), Held: m.Held, Commitment: m.Commitment, Pool: m.Pool, Draw: m.Draw,
	}
	for _, f := range m.Further {
		s.Further = append(s.Further, FurtherReply{
			Enrolled: f.Enrolled, Refusal: Refusal(f.Refusal), Slot: f.Slot, ReportAfter: duration(f.ReportAfterMs),
			Held: f.Held, Commitment: f.Commitment,
		})
	}
	return s
}

func poolMessage(s *Pool) *rifflev1.Pool {
	return &rifflev1.Pool{
		Deployment: s.Deployment, Epoch: s.Epoch, Announcement: s.Announcement, Registered: s.Registered, Root: s.Root,
		Contribution: s.Contribution,
	}
}

func poolOf(m *rifflev1.Pool) *Pool {
	return &Pool{
		Deployment: m.Deployment, Epoch: m.Epoch, Announcement: m.Announcement, Registered: m.Registered, Root: m.Root,
		Contribution: m.Contribution,
	}
}

func drawMessage(s *Draw) *rifflev1.Draw {
	return &rifflev1.Draw{
		Deployment: s.Deployment, Epoch: s.Epoch, Announcement: s.Announcement, Pool: s.Pool,
		Contribution: s.Contribution,
	}
}

func drawOf(m *rifflev1.Draw) *Draw {
	return &Draw{
		Deployment: m.Deployment, Epoch: m.Epoch, Announcement: m.Announcement, Pool: m.Pool,
		Contribution: m.Contribution,
	}
}
