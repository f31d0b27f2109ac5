package wire_test

import (
	"bytes"
	"math"
	"testing"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
	"google.golang.org/protobuf/proto"
)

const deployment = "golden-1"

// signer is an identity whose seed is 32 bytes b.
func signer(t testing.TB, b byte) *seal.Identity {
	t.Helper()
	id, err := seal.NewIdentity(bytes.Repeat([]byte{b}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func hpkeKey(t testing.TB, b byte) *seal.HPKEKey {
	t.Helper()
	k, err := seal.NewHPKEKey(bytes.Repeat([]byte{b}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func party(id *seal.Identity) wire.Party { return wire.Party{Deployment: deployment, Key: id.Public()} }

func digestOf(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

// announcement is a valid one of dimension 2: Hessian (3 coordinates) and gradient (2) in one round, and a second round
// with a gradient.
func announcement(t testing.TB) *rifflev1.Announcement {
	stage := func(x float64) *rifflev1.Stage {
		return &rifflev1.Stage{Theta: []float64{x, -x / 2}, Covariance: []float64{0.5, 0.1, 0.25}, Width: 1}
	}
	coordinates := func(n int, offset float64) (out []*rifflev1.Coordinate) {
		for range n {
			out = append(out, &rifflev1.Coordinate{Offset: offset, Levels: 7})
		}
		return out
	}
	gradient := func() *rifflev1.PlannedRelease {
		return &rifflev1.PlannedRelease{Statistic: rifflev1.Statistic_STATISTIC_GRADIENT, Shift: 6.25,
			NoiseBits: 3, Bias: 1 << 30}
	}
	return &rifflev1.Announcement{
		Deployment: deployment,
		Epoch:      2,
		Previous:   digestOf(1),
		Policy: &rifflev1.Policy{
			Profile: rifflev1.Profile_PROFILE_PRACTICAL, Cohorts: 1,
			Family: &rifflev1.Family{Name: "logistic", MaxReward: 1},
			Dim:    2, NormBound: 3, Theta: []float64{0.5, math.Copysign(0, -1)},
			Stages:  []*rifflev1.Stage{stage(0.5), stage(1)},
			Scaling: &rifflev1.Scaling{Stage: stage(0.25), SelfConcordance: 1, MaxWeight: 0.25},
			Play:    rifflev1.Play_PLAY_DESIGN, DesignTolerance: 0.1, Explore: 0.75,
		},
		Reference: []float64{0.5, 0},
		Plan: &rifflev1.Plan{
			Rounds: []*rifflev1.PlannedRound{
				{Releases: []*rifflev1.PlannedRelease{{Statistic: rifflev1.Statistic_STATISTIC_HESSIAN,
					Shift: 2.5, NoiseBits: 2, Bias: 1 << 31}, gradient()}},
				{Releases: []*rifflev1.PlannedRelease{gradient()}},
			},
			Epsilon: 1, Delta: 1e-6, TailDelta: 1e-9,
		},
		Encodings: []*rifflev1.Encoding{
			{Scale: 12.5, Coordinates: coordinates(3, -0.25)},
			{Scale: 4, Coordinates: coordinates(2, -1)},
		},
		Cohort:      &rifflev1.Cohort{Size: 120, Minimum: 100, MaxDishonest: 10},
		Timing:      &rifflev1.Timing{RewardWindowMs: 60000, JitterMs: 5000, GraceMs: 10000, RoundWindowMs: 30000},
		AnalyzerKey: hpkeKey(t, 9).Public(),
	}
}

// curatedAnnouncement is one of records, with an optimistic policy.
func curatedAnnouncement(t testing.TB) *rifflev1.Announcement {
	a := announcement(t)
	p := a.Policy
	p.Profile, p.Play, p.Scaling = rifflev1.Profile_PROFILE_JOINT, rifflev1.Play_PLAY_OPTIMISTIC, nil
	p.DesignTolerance, p.Explore = 0, 0
	p.Criterion = &rifflev1.Criterion{Covariance: []float64{0.5, 0.1, 0.25}, Threshold: 0.125}
	p.Optimism, p.Stages = p.Stages[1], p.Stages[:1]
	a.Reference = []float64{0, 0}
	a.Plan = &rifflev1.Plan{
		Rounds: []*rifflev1.PlannedRound{{Releases: []*rifflev1.PlannedRelease{
			{Statistic: rifflev1.Statistic_STATISTIC_RECORD}}}},
		Epsilon: 1, Delta: 1e-6, Channel: rifflev1.Channel_CHANNEL_CENTRAL,
		Curator: &rifflev1.Curator{Leaves: 50, ExplorerNoise: 25, OtherNoise: 2.5, ExplorerFits: 6, OtherFits: 10,
			ExplorerRho: 0.001, OtherRho: 0.0005},
	}
	units := func(offset float64, levels uint32) *rifflev1.Coordinate {
		return &rifflev1.Coordinate{Offset: offset, Levels: levels}
	}
	a.Encodings = []*rifflev1.Encoding{{Scale: 16384, Coordinates: []*rifflev1.Coordinate{
		units(-1, 32768), units(-1, 32768), units(0, 16384), units(0, 16384)}}}
	return a
}

// panelAnnouncement is one of a panel of registered devices, with a control group, a third release, a schema of
// features, and times between epochs.
func panelAnnouncement(t testing.TB) *rifflev1.Announcement {
	a := announcement(t)
	a.Policy.Control, a.Policy.Caution, a.Policy.Play = 0.05, 1.5, rifflev1.Play_PLAY_DEFAULT
	a.Plan.Rounds = a.Plan.Rounds[:1]
	round := a.Plan.Rounds[0]
	round.Releases = append(round.Releases, &rifflev1.PlannedRelease{
		Statistic: rifflev1.Statistic_STATISTIC_REWARDS, Shift: 3, NoiseBits: 4, Bias: 1 << 31})
	level := &rifflev1.Coordinate{Offset: -0.5, Levels: 5}
	a.Encodings = append(a.Encodings, &rifflev1.Encoding{Scale: 2.5, Coordinates: []*rifflev1.Coordinate{level, level,
		{Levels: 3}}})
	a.Plan.Panel = &rifflev1.Panel{Registered: 5000, Dishonest: 0.05, Tail: 1e-9}
	a.Plan.Decisions, a.Plan.Records, a.Plan.Period = 7, 4, 30
	a.Timing.EveryMs = 86_400_000
	a.Commitment, a.Schema = digestOf(11), []byte(`{"numbers":[]}`)
	return a
}

func pool() *rifflev1.Pool {
	return &rifflev1.Pool{Deployment: deployment, Epoch: 2, Announcement: digestOf(2), Registered: 5100,
		Root: digestOf(12), Contribution: digestOf(13)}
}

func draw() *rifflev1.Draw {
	return &rifflev1.Draw{Deployment: deployment, Epoch: 2, Announcement: digestOf(2), Pool: digestOf(14),
		Contribution: digestOf(15)}
}

// registration asks that later panels can be drawn of the device.
func registration(t testing.TB, host, registrar *seal.Identity) *rifflev1.EnrolRequest {
	r := enrolRequest(t, host, registrar)
	r.Epoch, r.Announcement = 0, nil
	return r
}

// drawnReply is to a device that is in the panel, and undrawnReply to one that is not.
func drawnReply(t testing.TB, by *seal.Identity) *rifflev1.EnrolReply {
	return &rifflev1.EnrolReply{Request: digestOf(7), Enrolled: true, Slot: 3, ReportAfterMs: 61000,
		Pool: forge(t, seal.Pool, pool(), by), Draw: forge(t, seal.Draw, draw(), by)}
}

func undrawnReply(t testing.TB, by *seal.Identity) *rifflev1.EnrolReply {
	return &rifflev1.EnrolReply{Request: digestOf(7), Refusal: rifflev1.Refusal_REFUSAL_NOT_DRAWN,
		Pool: forge(t, seal.Pool, pool(), by), Draw: forge(t, seal.Draw, draw(), by)}
}

func curatedCounts() *rifflev1.Counts {
	c := counts()
	c.Releases = []*rifflev1.ReleaseCounts{{Curated: []int64{0, -7, 1<<53 - 1}}}
	return c
}

func finalAnnouncement(t testing.TB) *rifflev1.Announcement {
	a := announcement(t)
	return &rifflev1.Announcement{Deployment: a.Deployment, Epoch: 3, Previous: digestOf(4),
		Policy: a.Policy, Final: true}
}

func keySet(t testing.TB) *rifflev1.KeySet {
	return &rifflev1.KeySet{Deployment: deployment, Number: 3,
		Keys: [][]byte{hpkeKey(t, 5).Public(), hpkeKey(t, 6).Public()}}
}

func manifest() *rifflev1.Manifest {
	return &rifflev1.Manifest{
		Deployment: deployment, Epoch: 2, Announcement: digestOf(2), Outcome: rifflev1.Outcome_OUTCOME_RELEASED,
		Enrolled: 120, Reports: 110, Messages: 110 * 47, Chunks: 3, ChunksDigest: digestOf(3),
		ReportsDigest: digestOf(4), MessagesRoot: digestOf(6),
	}
}

func destroyedManifest() *rifflev1.Manifest {
	return &rifflev1.Manifest{
		Deployment: deployment, Epoch: 2, Round: 1, Announcement: digestOf(2),
		Outcome: rifflev1.Outcome_OUTCOME_DESTROYED, Enrolled: 120, Reports: 12,
	}
}

func acceptedSet() *rifflev1.Accepted {
	return &rifflev1.Accepted{
		Deployment: deployment, Epoch: 2, Round: 1, Announcement: digestOf(2), Reports: 110, Set: digestOf(8),
	}
}

func summed() *rifflev1.Summed {
	return &rifflev1.Summed{
		Deployment: deployment, Epoch: 2, Round: 1, Announcement: digestOf(2), Reports: 110, Set: digestOf(8),
		Share: digestOf(9),
	}
}

func counts() *rifflev1.Counts {
	return &rifflev1.Counts{
		Deployment: deployment, Epoch: 2, Announcement: digestOf(2), Manifest: digestOf(5), Reports: 110,
		Releases: []*rifflev1.ReleaseCounts{{Ones: []uint64{400, 0, 990}}, {Ones: []uint64{1, 1100}}},
	}
}

func credential(t testing.TB, host *seal.Identity) *rifflev1.Credential {
	return &rifflev1.Credential{Deployment: deployment, HostKey: host.Public(), Devices: 10}
}

// certificate lets an issuer admit five installations in epochs 2 to 9.
func certificate(issuer *seal.Identity) *rifflev1.IssuerCertificate {
	return &rifflev1.IssuerCertificate{
		Deployment: deployment, Key: issuer.Public(), First: 2, Last: 9, Installations: 5,
	}
}

// issued is an issuer's credential of an installation, up to epoch 8.
func issued(t testing.TB, host, issuer, registrar *seal.Identity) *rifflev1.Credential {
	return &rifflev1.Credential{
		Deployment: deployment, HostKey: host.Public(), Devices: 1, NotAfter: 8,
		Issuer: forgeSigned(t, seal.IssuerCertificate, certificate(issuer), registrar),
	}
}

func issuedRequest(t testing.TB, host, issuer, registrar *seal.Identity) *rifflev1.EnrolRequest {
	r := enrolRequest(t, host, registrar)
	r.Device, r.Credential = 0, forgeSigned(t, seal.Credential, issued(t, host, issuer, registrar), issuer)
	return r
}

// issuedEntry is an entry of an issuer's log.
func issuedEntry(number uint64) *rifflev1.Issued {
	m := &rifflev1.Issued{Deployment: deployment, Number: number, Key: digestOf(3)}
	if number > 1 {
		m.Previous = digestOf(4)
	}
	return m
}

func ticketReply() *rifflev1.EnrolReply {
	return &rifflev1.EnrolReply{Request: digestOf(7), Enrolled: true, Slot: 3, ReportAfterMs: 61000,
		Ticket: digestOf(6)[:wire.TicketSize]}
}

func signedCredential(t testing.TB, host, registrar *seal.Identity) *rifflev1.Signed {
	return forgeSigned(t, seal.Credential, credential(t, host), registrar)
}

func enrolRequest(t testing.TB, host, registrar *seal.Identity) *rifflev1.EnrolRequest {
	return &rifflev1.EnrolRequest{
		Deployment: deployment, Epoch: 2, Announcement: digestOf(2), Device: 9, Credential: signedCredential(t,
			host, registrar),
	}
}

func enrolReply() *rifflev1.EnrolReply {
	return &rifflev1.EnrolReply{Request: digestOf(7), Enrolled: true, Slot: 3, ReportAfterMs: 61000, Held: true}
}

func enrolRequests(t testing.TB, host, registrar *seal.Identity) *rifflev1.EnrolRequest {
	r := enrolRequest(t, host, registrar)
	r.Device, r.Further = 3, []uint32{4, 9}
	return r
}

func noncedRequest(t testing.TB, host, registrar *seal.Identity) *rifflev1.EnrolRequest {
	r := enrolRequests(t, host, registrar)
	r.Nonces = []uint32{1, 2, 0xfffffffe}
	return r
}

// envelope is what a sealed request travels in.
func envelope(t testing.TB, e seal.Envelope) []byte {
	return encode(t, &rifflev1.Envelope{Key: e.Key, Encapsulated: e.Encapsulated, Ciphertext: e.Ciphertext})
}

func enrolReplies() *rifflev1.EnrolReply {
	r := enrolReply()
	r.Further = []*rifflev1.FurtherReply{
		{Enrolled: true, Slot: 4, ReportAfterMs: 61001, Commitment: digestOf(8)},
		{Refusal: rifflev1.Refusal_REFUSAL_COHORT_FULL},
	}
	return r
}

func refusal() *rifflev1.EnrolReply {
	return &rifflev1.EnrolReply{Request: digestOf(7), Refusal: rifflev1.Refusal_REFUSAL_COHORT_FULL}
}

// report is a report of two bit messages; its bits need not open.
func report() wire.Report {
	return wire.Report{
		Announcement: [32]byte(digestOf(2)), Epoch: 2, Round: 0, Slot: 0, Device: 9, Payload: bytes.Repeat([]byte{0x5a},
			2*seal.BitSize),
	}
}

func chunk() wire.Chunk {
	return wire.Chunk{Epoch: 2, Round: 1, Index: 2, Payload: bytes.Repeat([]byte{0xa5}, 3*seal.BitSize)}
}

// signature is an identity's.
func signature(kind seal.Kind, body []byte, by *seal.Identity) []byte {
	s, err := seal.Sign(kind, body, by)
	if err != nil {
		panic(err)
	}
	return s
}

// forgeSigned signs anything as any kind of statement, unchecked.
func forgeSigned(t testing.TB, kind seal.Kind, m proto.Message, by *seal.Identity) *rifflev1.Signed {
	t.Helper()
	body := encode(t, m)
	return &rifflev1.Signed{Body: body, Key: by.Public(), Signature: signature(kind, body, by)}
}

func forge(t testing.TB, kind seal.Kind, m proto.Message, by *seal.Identity) []byte {
	t.Helper()
	return encode(t, forgeSigned(t, kind, m, by))
}

func encode(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
