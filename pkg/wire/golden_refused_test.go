package wire_test

import (
	"bytes"
	"math"
	"testing"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// refused are messages that must never be accepted, by format.
func refused(t testing.TB) map[string][][]byte {
	by, host, registrar := signer(t, goldenSigner), signer(t, goldenHost), signer(t, goldenRegistry)
	out := map[string][][]byte{}
	add := func(format string, b []byte) { out[format] = append(out[format], b) }
	for format, messages := range accepted(t) { // damaged in ways that every format must notice
		good := messages[0]
		tampered := bytes.Clone(good)
		tampered[len(tampered)-1] ^= 1
		if format != "chunk" { // a chunk carries no authentication of its own
			add(format, tampered)
		}
		add(format, good[:len(good)-1])
		add(format, append(bytes.Clone(good), 0xc0, 0x3e, 1)) // field 1000
		add(format, append(bytes.Clone(good), 0))
	}
	add("announcement", forge(t, seal.Announcement, announcement(t), host)) // signed by another party
	add("announcement", forge(t, seal.Manifest, announcement(t), by))       // signed as another kind
	for _, change := range []func(*rifflev1.Announcement){
		func(a *rifflev1.Announcement) { a.Deployment = "other" },
		func(a *rifflev1.Announcement) { a.Plan.Rounds[0].Releases[0].NoiseBits = 0 },
		func(a *rifflev1.Announcement) { a.Plan.Rounds[0].Releases[0].Shift = math.NaN() },
		func(a *rifflev1.Announcement) { a.Policy.Theta[0] = math.Inf(1) },
		func(a *rifflev1.Announcement) { a.Reference[0] = 4 },
		func(a *rifflev1.Announcement) { a.Cohort.Minimum = 0 },
		func(a *rifflev1.Announcement) { a.Cohort.MaxDishonest = 100 },
		func(a *rifflev1.Announcement) { a.Encodings = a.Encodings[:1] },
		func(a *rifflev1.Announcement) { a.AnalyzerKey = make([]byte, 32) },
	} {
		a := announcement(t)
		change(a)
		add("announcement", forge(t, seal.Announcement, a, by))
	}
	for _, change := range []func(*rifflev1.Announcement){
		func(a *rifflev1.Announcement) { a.Plan.Curator = nil },
		func(a *rifflev1.Announcement) { a.Plan.Channel = rifflev1.Channel_CHANNEL_SHUFFLE },
		func(a *rifflev1.Announcement) { a.Plan.Curator.OtherNoise = math.Inf(1) },
		func(a *rifflev1.Announcement) { a.Policy.Optimism = nil },
	} {
		a := curatedAnnouncement(t)
		change(a)
		add("announcement", forge(t, seal.Announcement, a, by))
	}
	for _, change := range []func(*rifflev1.Policy){
		func(p *rifflev1.Policy) { p.Draws = nil },
		func(p *rifflev1.Policy) { p.Draws = p.Draws[1:] },
		func(p *rifflev1.Policy) { p.Draws[0] = 4 },
		func(p *rifflev1.Policy) { p.Play = rifflev1.Play_PLAY_DESIGN },
	} {
		a := sampledAnnouncement(t)
		change(a.Policy)
		add("play-announcement", forge(t, seal.Announcement, a, by))
	}
	for _, change := range []func(*rifflev1.Announcement){
		func(a *rifflev1.Announcement) { a.Plan.Channel = rifflev1.Channel_CHANNEL_SHUFFLE },
		func(a *rifflev1.Announcement) { a.Plan.Channel = rifflev1.Channel_CHANNEL_SHARES },
		func(a *rifflev1.Announcement) { a.Cohort.Size = 1 << 20 },
	} {
		a := pairsAnnouncement(t)
		change(a)
		add("announcement", forge(t, seal.Announcement, a, by))
	}
	beside := pairsCounts()
	beside.Releases[0].Ones = []uint64{1}
	add("counts", forge(t, seal.Counts, beside, by))
	for _, change := range []func(*rifflev1.Policy){
		func(p *rifflev1.Policy) { p.Gamma = -1 },
		func(p *rifflev1.Policy) { p.Gamma = math.Inf(1) },
		func(p *rifflev1.Policy) { p.Play = rifflev1.Play_PLAY_SPANNER },
		func(p *rifflev1.Policy) { p.Scaling.Stage.Means = true },
	} {
		a := inverseGapAnnouncement(t)
		change(a.Policy)
		add("play-announcement", forge(t, seal.Announcement, a, by))
	}
	for _, change := range []func(*rifflev1.Announcement){
		func(a *rifflev1.Announcement) { a.Tree = nil },
		func(a *rifflev1.Announcement) { a.Tree.Parents[0] = 1 },
		func(a *rifflev1.Announcement) { a.Tree.Directions = a.Tree.Directions[:1] },
		func(a *rifflev1.Announcement) { a.Policy.Trees[1].Slopes[1] = -1 },
		func(a *rifflev1.Announcement) { a.Policy.Trees[1].Values = a.Policy.Trees[1].Values[:1] },
	} {
		a := treeAnnouncement(t)
		change(a)
		add("tree-announcement", forge(t, seal.Announcement, a, by))
	}
	unknown := announcement(t) // a field of the plan that the schema does not have
	unknown.Plan.ProtoReflect().SetUnknown([]byte{11 << 3, 1})
	add("announcement", forge(t, seal.Announcement, unknown, by))
	both := curatedCounts()
	both.Releases[0].Ones = []uint64{1}
	add("counts", forge(t, seal.Counts, both, by))
	m := manifest()
	m.Messages++
	add("manifest", forge(t, seal.Manifest, m, by))
	rootless := manifest()
	rootless.MessagesRoot = nil
	add("manifest", forge(t, seal.Manifest, rootless, by))
	k := keySet(t)
	k.Keys[1] = make([]byte, 32)
	add("keyset", forge(t, seal.KeySet, k, by))
	c := counts()
	c.Destroyed = true
	add("counts", forge(t, seal.Counts, c, by))
	empty := summed()
	empty.Reports = 0
	add("summed", forge(t, seal.Summed, empty, by))
	add("summed", forge(t, seal.Accepted, acceptedSet(), by)) // the other server's
	cred := credential(t, host)
	cred.Devices = 0
	add("credential", forge(t, seal.Credential, cred, registrar))
	cred = credential(t, host)
	cred.FirstKey = cred.HostKey
	add("credential", forge(t, seal.Credential, cred, registrar))
	r := enrolRequest(t, host, registrar)
	r.Device = 10
	add("enrol-request", forge(t, seal.EnrolRequest, r, host))
	reply := enrolReply()
	reply.Refusal = rifflev1.Refusal_REFUSAL_LATE
	add("enrol-reply", forge(t, seal.EnrolReply, reply, by))
	add("chunk", encode(t, &rifflev1.MixedChunk{Epoch: 1}))
	conf := configuration(t)
	conf.Terms = append([]byte(" "), conf.Terms...)
	add("configuration", forge(t, seal.Configuration, conf, by))
	add("configuration", forge(t, seal.Configuration, configuration(t), host))
	l := learned()
	l.Sums[0].Values[0] = math.NaN()
	add("learned", forge(t, seal.Learned, l, by))
	add("learned", forge(t, seal.Counts, learned(), by))
	twice := auditedManifest()
	twice.Refused[1].Reason = twice.Refused[0].Reason
	add("audited-manifest", forge(t, seal.Manifest, twice, by))
	more := auditedManifest()
	more.Refused[1].TakenOut = 6
	add("audited-manifest", forge(t, seal.Manifest, more, by))
	refusedOfPanels(t, add)
	for _, further := range [][]uint32{{4, 4}, {3}, {5, 4}, {10}, make([]uint32, 64)} {
		several := enrolRequests(t, host, registrar)
		several.Further = further
		add("enrol-requests", forge(t, seal.EnrolRequest, several, host))
	}
	several := registration(t, host, registrar)
	several.Further = []uint32{4}
	add("enrol-requests", forge(t, seal.EnrolRequest, several, host))
	few := noncedRequest(t, host, registrar)
	few.Nonces = few.Nonces[1:]
	add("nonced-request", forge(t, seal.EnrolRequest, few, host))
	none := noncedRequest(t, host, registrar)
	none.Nonces[1] = 0
	add("nonced-request", forge(t, seal.EnrolRequest, none, host))
	for _, change := range []func(*rifflev1.EnrolReply){
		func(r *rifflev1.EnrolReply) { r.Further[0].Refusal = rifflev1.Refusal_REFUSAL_LATE },
		func(r *rifflev1.EnrolReply) { r.Further[1].Refusal = 0 },
		func(r *rifflev1.EnrolReply) { r.Further[1].Slot = 1 },
		func(r *rifflev1.EnrolReply) { r.Pool, r.Draw = []byte{1}, []byte{1} },
		func(r *rifflev1.EnrolReply) { r.Further = append(r.Further, make([]*rifflev1.FurtherReply, 62)...) },
	} {
		replies := enrolReplies()
		change(replies)
		add("enrol-replies", forge(t, seal.EnrolReply, replies, by))
	}
	return out
}

// refusedOfPanels adds the messages of panels that must never be accepted.
func refusedOfPanels(t testing.TB, add func(format string, b []byte)) {
	by, host, registrar := signer(t, goldenSigner), signer(t, goldenHost), signer(t, goldenRegistry)
	for _, change := range []func(*rifflev1.Announcement){
		func(a *rifflev1.Announcement) { a.Commitment = nil },
		func(a *rifflev1.Announcement) { a.Plan.Panel = nil },
		func(a *rifflev1.Announcement) { a.Plan.Panel.Registered = 0 },
		func(a *rifflev1.Announcement) { a.Plan.Panel.Dishonest = 1 },
		func(a *rifflev1.Announcement) { a.Plan.Panel.Tail = a.Plan.Delta },
		func(a *rifflev1.Announcement) { a.Plan.Decisions = 0 },
		func(a *rifflev1.Announcement) { a.Plan.Records = 0 },
		func(a *rifflev1.Announcement) { a.Plan.Period = 3 },
		func(a *rifflev1.Announcement) { a.Policy.Control = 1 },
		func(a *rifflev1.Announcement) { a.Policy.Caution = math.Inf(1) },
	} {
		a := panelAnnouncement(t)
		change(a)
		add("panel-announcement", forge(t, seal.Announcement, a, by))
	}
	add("pool", forge(t, seal.Pool, pool(), host))
	add("pool", forge(t, seal.Draw, pool(), by))
	nobody := pool()
	nobody.Registered = 0
	add("pool", forge(t, seal.Pool, nobody, by))
	add("draw", forge(t, seal.Pool, draw(), by))
	short := draw()
	short.Contribution = short.Contribution[:31]
	add("draw", forge(t, seal.Draw, short, by))
	r := registration(t, host, registrar)
	r.Announcement = digestOf(2)
	add("registration", forge(t, seal.EnrolRequest, r, host))
	full := undrawnReply(t, by)
	full.Refusal = rifflev1.Refusal_REFUSAL_NOT_REGISTERED
	add("panel-reply", forge(t, seal.EnrolReply, full, by))
	half := drawnReply(t, by)
	half.Draw = nil
	add("panel-reply", forge(t, seal.EnrolReply, half, by))
	c := lastingConfiguration(t)
	c.Rules = []byte(`{}`)
	add("lasting-configuration", forge(t, seal.Configuration, c, by))
	for _, change := range []func(*rifflev1.Learned){
		func(l *rifflev1.Learned) { l.Lift.High = l.Lift.Low - 1 },
		func(l *rifflev1.Learned) { l.Total.Treated = math.NaN() },
		func(l *rifflev1.Learned) { l.Unchanged = 1.5 },
		func(l *rifflev1.Learned) { l.Action = "pause" },
	} {
		l := comparedLearned()
		change(l)
		add("compared-learned", forge(t, seal.Learned, l, by))
	}
}
