package wire

import (
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// The functions named ...Fields go through the fields of a message. They write a statement that its check has passed,
// and read any message, with zero for what is absent. Open refuses a statement that would be written otherwise.

// sealed is the outer message of a statement.
type sealed struct{ Body, Key, Signature []byte }

func sealedFields(c *coder, m *sealed) {
	c.bytes(1, &m.Body)
	c.bytes(2, &m.Key)
	c.bytes(3, &m.Signature)
}

func keySetFields(c *coder, s *KeySet) {
	c.named(&s.Deployment)
	c.every(2, &s.Keys)
	c.uint64(3, &s.Number)
}

func issuerCertificateFields(c *coder, s *IssuerCertificate) {
	c.named(&s.Deployment)
	c.bytes(2, &s.Key)
	c.uint64(3, &s.First)
	c.uint64(4, &s.Last)
	c.uint32(5, &s.Installations)
}

func issuedFields(c *coder, s *Issued) {
	c.named(&s.Deployment)
	c.uint64(2, &s.Number)
	c.bytes(3, &s.Previous)
	c.bytes(4, &s.Key)
}

func credentialFields(c *coder, s *Credential) {
	c.named(&s.Deployment)
	c.bytes(2, &s.HostKey)
	c.uint32(3, &s.Devices)
	c.bytes(4, &s.FirstKey)
	c.uint64(5, &s.NotAfter)
	c.bytes(6, &s.Issuer) // a Signed, which checkCredential reads
}

func enrolRequestFields(c *coder, s *EnrolRequest) {
	c.named(&s.Deployment)
	c.uint64(2, &s.Epoch)
	c.bytes(3, &s.Announcement)
	c.uint32(4, &s.Device)
	c.bytes(5, &s.Credential) // a Signed, which checkEnrolRequest reads
	numbers(c, 6, &s.Further)
	c.wides(7, &s.Nonces)
}

func enrolReplyFields(c *coder, s *EnrolReply) {
	c.bytes(1, &s.Request)
	c.bool(2, &s.Enrolled)
	c.enum(3, (*int32)(&s.Refusal))
	c.uint32(4, &s.Slot)
	c.milliseconds(5, &s.ReportAfter)
	c.bool(6, &s.Held)
	c.bytes(7, &s.Commitment)
	c.bytes(8, &s.Pool)
	c.bytes(9, &s.Draw)
	list(c, 10, &s.Further, MaxFurther+1, furtherReplyFields)
	c.bytes(11, &s.Ticket)
}

func furtherReplyFields(c *coder, s *FurtherReply) {
	c.bool(1, &s.Enrolled)
	c.enum(2, (*int32)(&s.Refusal))
	c.uint32(3, &s.Slot)
	c.milliseconds(4, &s.ReportAfter)
	c.bool(5, &s.Held)
	c.bytes(6, &s.Commitment)
}

func poolFields(c *coder, s *Pool) {
	c.named(&s.Deployment)
	c.uint64(2, &s.Epoch)
	c.bytes(3, &s.Announcement)
	c.uint32(4, &s.Registered)
	c.bytes(5, &s.Root)
	c.bytes(6, &s.Contribution)
}

func drawFields(c *coder, s *Draw) {
	c.named(&s.Deployment)
	c.uint64(2, &s.Epoch)
	c.bytes(3, &s.Announcement)
	c.bytes(4, &s.Pool)
	c.bytes(5, &s.Contribution)
}

// reportFields are those of a report before it is signed.
func reportFields(c *coder, r *Report) {
	c.array(1, &r.Announcement)
	c.wide64(2, &r.Epoch)
	c.wide32(3, &r.Round)
	c.wide32(4, &r.Slot)
	c.wide32(5, &r.Device)
	c.bytes(6, &r.Payload)
	c.array(7, &r.HostKey)
}

func envelopeFields(c *coder, e *seal.Envelope) {
	c.bytes(1, &e.Key)
	c.bytes(2, &e.Encapsulated)
	c.bytes(3, &e.Ciphertext)
}

func chunkFields(c *coder, m *Chunk) {
	c.uint64(1, &m.Epoch)
	c.uint32(2, &m.Round)
	c.uint32(3, &m.Index)
	c.bytes(4, &m.Payload)
}

func manifestFields(c *coder, s *Manifest) {
	c.named(&s.Deployment)
	c.uint64(2, &s.Epoch)
	c.uint32(3, &s.Round)
	c.bytes(4, &s.Announcement)
	c.enum(5, (*int32)(&s.Outcome))
	c.uint32(6, &s.Enrolled)
	c.uint32(7, &s.Reports)
	c.uint64(8, &s.Messages)
	c.uint32(9, &s.Chunks)
	c.bytes(10, &s.ChunksDigest)
	c.bytes(11, &s.ReportsDigest)
	c.uint64(12, &s.NoiseMessages)
	c.bytes(13, &s.MessagesRoot)
	list(c, 14, &s.Refused, len(refusals)+1, refusedFields)
}

func refusedFields(c *coder, s *Refused) {
	c.enum(1, (*int32)(&s.Reason))
	c.uint64(2, &s.Reports)
	c.uint32(3, &s.TakenOut)
}

func countsFields(c *coder, s *Counts) {
	c.named(&s.Deployment)
	c.uint64(2, &s.Epoch)
	c.uint32(3, &s.Round)
	c.bytes(4, &s.Announcement)
	c.bytes(5, &s.Manifest)
	c.uint32(6, &s.Reports)
	list(c, 7, &s.Releases, MaxReleases+1, releaseCountsFields)
	c.bool(8, &s.Destroyed)
}

func releaseCountsFields(c *coder, s *ReleaseCounts) {
	numbers(c, 1, &s.Ones)
	c.signed(2, &s.Curated)
	numbers(c, 3, &s.Entries)
}

func acceptedFields(c *coder, s *Accepted) {
	c.named(&s.Deployment)
	c.uint64(2, &s.Epoch)
	c.uint32(3, &s.Round)
	c.bytes(4, &s.Announcement)
	c.uint32(5, &s.Reports)
	c.bytes(6, &s.Set)
}

func summedFields(c *coder, s *Summed) {
	c.named(&s.Deployment)
	c.uint64(2, &s.Epoch)
	c.uint32(3, &s.Round)
	c.bytes(4, &s.Announcement)
	c.uint32(5, &s.Reports)
	c.bytes(6, &s.Set)
	c.bytes(7, &s.Share)
}

func configurationFields(c *coder, s *Configuration) {
	c.named(&s.Deployment)
	jsonField(c, 2, &s.Learner, true)
	c.bool(3, &s.Anytime)
	c.count(4, &s.Batch)
	jsonField(c, 5, &s.Terms, true)
	c.inside(6, true, func(c *coder) { timingFields(c, &s.Timing) })
	c.bytes(7, &s.Schema)
	jsonField(c, 8, &s.Rules, false)
}

func learnedFields(c *coder, s *Learned) {
	c.named(&s.Deployment)
	c.uint64(2, &s.Epoch)
	c.uint32(3, &s.Round)
	c.bytes(4, &s.Announcement)
	c.bytes(5, &s.Counts)
	c.bool(6, &s.Destroyed)
	list(c, 7, &s.Sums, MaxReleases+1, sumFields)
	c.floats(8, &s.Iterate)
	c.bytes(9, &s.Policy)
	c.float(10, &s.Epsilon)
	c.float(11, &s.EpsilonAlone)
	c.text(12, &s.Version)
	optional(c, 13, &s.Lift, liftFields)
	optional(c, 14, &s.Total, liftFields)
	c.float(15, &s.Unchanged)
	c.text(16, &s.Action)
}

func sumFields(c *coder, s *Sum) {
	c.floats(1, &s.Values)
	c.floats(2, &s.Variance)
}

func liftFields(c *coder, l *Lift) {
	c.uint64(1, &l.Reports)
	c.float(2, &l.Decisions)
	c.float(3, &l.Treated)
	c.float(4, &l.Control)
	c.float(5, &l.Lift)
	c.float(6, &l.Low)
	c.float(7, &l.High)
}

func timingFields(c *coder, t *plan.Timing) {
	c.milliseconds(1, &t.RewardWindow)
	c.milliseconds(2, &t.Jitter)
	c.milliseconds(3, &t.Grace)
	c.milliseconds(4, &t.RoundWindow)
	c.milliseconds(5, &t.Enrolment)
	c.milliseconds(6, &t.Every)
}
