package wire

import (
	"strconv"
	"time"

	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// Statement is what Sign signs and Open opens. Unless a field says otherwise, a deployment is a name that
// CheckDeployment accepts, an epoch counts from 1, a round counts from 0 and is below MaxRounds, and a digest has 32
// bytes.
type Statement interface {
	plan.Announcement | KeySet | Manifest | Counts | Credential | EnrolRequest | EnrolReply | Accepted | Summed |
		Configuration | Learned | Pool | Draw | IssuerCertificate | Issued
}

// KeySet is a role's statement of its current HPKE public keys, newest first. Older keys stay valid for messages that
// are on their way.
type KeySet struct {
	Deployment string
	Keys       [][]byte // 1 to MaxKeys different keys of 32 bytes
	Number     uint64   // from 1; a later set has a larger number, and a role that saw it refuses an earlier one
}

// IssuerCertificate lets the holder of an issuer key credential installations: hosts with one device each. The
// registrar signs it.
type IssuerCertificate struct {
	Deployment  string
	Key         []byte // Ed25519 public key, 32 bytes
	First, Last uint64 // epochs in which its credentials admit: 1 <= First <= Last
	// Installations is how many are admitted over the deployment, at least 1. A later certificate may say more.
	Installations uint32
}

// Credential lets the holder of a host key enrol devices 0 to Devices-1, each once per deployment. The registrar signs
// it, or an issuer that the registrar certified.
type Credential struct {
	Deployment string
	HostKey    []byte // Ed25519 public key, 32 bytes
	Devices    uint32 // at least 1; 1 where an issuer signs
	// FirstKey is the first key of a host whose key was replaced: 32 bytes, not HostKey; empty where HostKey is the
	// first, or an issuer signs.
	FirstKey []byte
	NotAfter uint64 // last epoch in which it admits; 0: no end. An issuer's ends in the epochs of its certificate.
	Issuer   []byte // signed bytes of the issuer's IssuerCertificate; empty where the registrar signs
}

// Issued is an issuer's statement that it credentialed an installation that it had not credentialed before: an entry of
// its log.
type Issued struct {
	Deployment string
	Number     uint64 // of the entry, counted from 1
	Previous   []byte // digest of the entry before; empty for the first
	Key        []byte // the installation's Ed25519 public key, 32 bytes
}

// EnrolRequest asks the shuffler for a slot in the current cohort, or whether the device is in the epoch's panel. With
// Epoch 0 and no Announcement it registers the device, so that later panels can be drawn of it. The host signs it.
type EnrolRequest struct {
	Deployment   string
	Epoch        uint64
	Announcement []byte // digest of the epoch's first announcement that the device holds
	Device       uint32 // below the credential's Devices
	Credential   []byte // signed bytes of the host's Credential
	// Further are devices of the host that ask for the same with this one request: ascending, above Device, at most
	// MaxFurther. Empty where the device registers.
	Further []uint32
	// Nonces has one for each of Devices, in their order: what seal.Nonce drew when the device's request was made
	// durable, the same however often it is sent, never 0. Empty where the device asks whether it is in a panel.
	Nonces []uint32
}

// NonceOf is the nonce of the request's device of that place, 0 being Device; 0 where the request has none.
func (r *EnrolRequest) NonceOf(place int) uint32 {
	if place < len(r.Nonces) {
		return r.Nonces[place]
	}
	return 0
}

// Devices are all that the request is for, in order.
func (r *EnrolRequest) Devices() []uint32 { return append([]uint32{r.Device}, r.Further...) }

// EnrolReply is the shuffler's answer to an EnrolRequest. If the device is refused, Slot, ReportAfter and Held are
// zero.
type EnrolReply struct {
	Request     []byte // digest of the request (RequestDigest)
	Enrolled    bool
	Refusal     Refusal // NoRefusal if and only if the device is enrolled
	Slot        uint32
	ReportAfter time.Duration // from the reply to the report: 0 to MaxTiming whole milliseconds
	Held        bool          // the device already held the slot when this request was decided
	// Commitment binds the reports of the channel Shares to the epoch's verification keys: 32 bytes, or empty in other
	// channels.
	Commitment []byte
	// Pool and Draw are the signed statements from which the seed of a panel follows: for a device that is in it, and
	// for one that is refused with RefusalNotDrawn. At most MaxContribution bytes each; empty where there are no
	// panels.
	Pool, Draw []byte
	// Further answers the request's further devices, in their order. Empty where the whole request is refused.
	Further []FurtherReply
	// Ticket is shown to the ingress with the slot's reports: 16 bytes, or none. Only where Enrolled, and not Further.
	Ticket []byte
}

// FurtherReply is the answer to one of a request's further devices. Its fields are as in EnrolReply.
type FurtherReply struct {
	Enrolled    bool
	Refusal     Refusal
	Slot        uint32
	ReportAfter time.Duration
	Held        bool
	Commitment  []byte
}

// Of is the reply to the request's device of that place, 0 being Device. A refusal of the whole request answers each.
func (r *EnrolReply) Of(place int) *EnrolReply {
	if place == 0 || len(r.Further) == 0 {
		one := *r
		one.Further = nil
		return &one
	}
	f := r.Further[place-1]
	return &EnrolReply{
		Request: r.Request, Enrolled: f.Enrolled, Refusal: f.Refusal, Slot: f.Slot, ReportAfter: f.ReportAfter,
		Held: f.Held, Commitment: f.Commitment,
	}
}

// Add appends the answer to the request's next device.
func (r *EnrolReply) Add(next *EnrolReply) {
	r.Further = append(r.Further, FurtherReply{
		Enrolled: next.Enrolled, Refusal: next.Refusal, Slot: next.Slot, ReportAfter: next.ReportAfter, Held: next.Held,
		Commitment: next.Commitment,
	})
}

// Pool is the shuffler's statement of whom it will draw an epoch's panel from, with its contribution to the seed. It
// makes it before it knows the analyzer's contribution, and one for an epoch.
type Pool struct {
	Deployment   string
	Epoch        uint64
	Announcement []byte // digest
	Registered   uint32 // devices to draw from, at least 1
	Root         []byte // panel.Root of them
	Contribution []byte // 32 random bytes
}

// Draw is the analyzer's statement of its contribution to the seed, to which it committed in the announcement. It makes
// it after it has seen the pool, and one for an epoch.
type Draw struct {
	Deployment   string
	Epoch        uint64
	Announcement []byte // digest
	Pool         []byte // digest
	Contribution []byte // 32 bytes, whose panel.Commit the announcement holds
}

// Outcome says how a round ended at the shuffler.
type Outcome int32

// The outcomes. Their numbers are in messages and journals.
const (
	Undecided Outcome = 0 // never in a manifest
	Released  Outcome = 1
	// Destroyed means that the round ended without a release: fewer reports than the minimum came, or the release could
	// not be carried out. The reports are deleted, and nothing of them leaves any more. Manifest.Messages says what may
	// have left before.
	Destroyed Outcome = 2
)

// String is "released" or "destroyed".
func (o Outcome) String() string {
	switch o {
	case Released:
		return "released"
	case Destroyed:
		return "destroyed"
	}
	return strconv.Itoa(int(o))
}

// Manifest is the shuffler's statement of how a round ended. If it was destroyed, NoiseMessages, Chunks, ChunksDigest
// and MessagesRoot are zero and ReportsDigest may be empty.
//
// Two identities tell where every slot and every message is. All numbers in them are exact:
//
//	Enrolled = Reports + the sum of all TakenOut + slots of which no report was taken
//	Messages = Reports x the messages of a report + NoiseMessages
//
// In a later round of an epoch, Reports and TakenOut are of devices that are among Reports of the round before. The
// messages of a report and NoiseMessages follow from the announcement.
type Manifest struct {
	Deployment   string
	Epoch        uint64
	Round        uint32
	Announcement []byte  // digest: the only one that was admitted
	Outcome      Outcome // Released or Destroyed
	Enrolled     uint32
	Reports      uint32 // at most Enrolled; at least 1 in a release
	// Messages is what left: the same number, 1 to plan.MaxReportMessages, for each report, and NoiseMessages. Of a
	// round that was destroyed it is the most that can have left before, the shuffler's noise included: 0 where nothing
	// had, otherwise all that the release would have had. How many really left the shuffler cannot know: its broker
	// could hide some.
	Messages      uint64
	NoiseMessages uint64 // made by the shuffler itself, as planned; below Messages
	Chunks        uint32 // enough for MaxChunkMessages a chunk, and at most Messages
	ChunksDigest  []byte // of ChunksDigest, 32 bytes
	ReportsDigest []byte // of ReportsDigest, 32 bytes
	// MessagesRoot is the root of the Merkle tree (RFC 6962) whose leaves are the SHA-256 digests of all Messages,
	// noise included, in ascending order: 32 bytes in a release. A message is a sealed bit in the channel Shuffle, a
	// sealed envelope in Local and Central, and in Shares the prepare message of a report that both servers accepted.
	MessagesRoot []byte
	Refused      []Refused // in ascending order of the reason, each once
}

// Refused is how many reports of a round were refused for one reason. Which these are depends on sizes, signatures,
// slots and copies, and never on a record: the shuffler cannot read one, and an honest device sends a report of the
// same size at the same time whatever its record is.
type Refused struct {
	Reason Refusal
	// Reports is at least 1. It counts what the broker delivered for the round, for the first time and to the process
	// that fixed the round's membership, up to that moment: what an earlier process refused before a crash, and what
	// came later (RefusalLate), is in no manifest. So it says "at least", but for those in TakenOut.
	Reports uint64
	// TakenOut are those of Reports that had been taken into their slot and were taken out again, before or after the
	// membership was fixed: each has a slot of its own, and the number is exact. All slots of a manifest's TakenOut and
	// Reports together are at most Enrolled.
	TakenOut uint32
}

// Accepted is the analyzer's statement of which reports of a round in the channel Shares it verified. It signs one for
// a round, before it sees a sum.
type Accepted struct {
	Deployment   string
	Epoch        uint64
	Round        uint32
	Announcement []byte // digest
	Reports      uint32
	Set          []byte // SHA-256 over the nonces of these reports, in ascending order
}

// Summed is the shuffler's statement, in the channel Shares, of the one share of a round's sums that leaves it. It
// is in the audit log before the share leaves, where no role can take it back: a shuffler that finds another one
// there than it keeps sends nothing.
type Summed struct {
	Deployment   string
	Epoch        uint64
	Round        uint32
	Announcement []byte // digest
	Reports      uint32 // at least 1
	Set          []byte // that the analyzer accepted, as in Accepted
	Share        []byte // SHA-256 of the share with the shuffler's noise
}

// ReleaseCounts is all that the analyzer keeps of a release. It has Ones, Curated or Entries.
type ReleaseCounts struct {
	Ones []uint64 // per coordinate, 1 to MaxCoordinates of them; each at most Reports times plan.MaxReportMessages,
	// and twice plan.MaxServerNoise
	// Curated is what a curator released after the cohort, in place of Ones: whole numbers below 2^53 in size. Only of
	// plans with plan.Curator.
	Curated []int64
	// Entries are those of every counted report of pairs (plan.Announcement.Reports), in place of Ones: one report
	// after the other, in ascending order, so that nothing says who sent which. At most MaxEntries numbers, and
	// plan.MaxEntryBits bits each.
	Entries []uint32
}

// Counts is the analyzer's statement of what it counted in a round. Every policy is a function of these.
type Counts struct {
	Deployment   string
	Epoch        uint64
	Round        uint32
	Announcement []byte          // digest
	Manifest     []byte          // digest
	Reports      uint32          // at least 1 unless the cohort was destroyed
	Releases     []ReleaseCounts // 1 to MaxReleases; none if the cohort was destroyed
	Destroyed    bool
}

// Configuration is the analyzer's statement of what it learns with: all that its announcements follow from, beside the
// counts. It is the first entry of its log, and occurs once.
type Configuration struct {
	Deployment string
	Learner    learner.Config
	Anytime    bool // go on after Learner.Horizon people, without a last policy
	Batch      int  // people of a cohort in the profile joint, a leaf of its trees; 0: the default
	Terms      plan.Terms
	Timing     plan.Timing
	Schema     []byte     // as in every announcement
	Rules      plan.Rules // by which a policy is taken back
}

// Lift compares decisions of the policy with those of the control group, which get the default arm. All numbers are
// finite.
type Lift struct {
	Reports   uint64
	Decisions float64 // rewarded decisions per report, estimated
	Treated   float64 // mean reward of the policy, estimated
	Control   float64 // mean reward of the default arm, estimated
	Lift      float64 // Treated minus Control
	Low, High float64 // 95 % interval of Lift, for sampling and all noise
}

// Sum is an unbiased estimate of the sum of a cohort's vectors in one release.
type Sum struct {
	Values   []float64 // per coordinate, in data units
	Variance []float64 // of the error of each value, in squared data units: of rounding and of all noise
}

// What the rules of a deployment can do to its policy.
const (
	ActionRollback = "rollback" // the next policy is the one before that of this epoch
	ActionStop     = "stop"     // from the next epoch on all decisions are the default arm
)

// Learned is the analyzer's statement of what it concluded from the counts of a round. Anybody can recompute all of it
// but Version from the configuration, the announcements and the counts.
type Learned struct {
	Deployment   string
	Epoch        uint64
	Round        uint32
	Announcement []byte // digest
	Counts       []byte // digest
	Destroyed    bool
	Sums         []Sum     // of each release; none of records, or if the cohort was destroyed
	Iterate      []float64 // reference of the next round; the last policy's theta where there is none
	Policy       []byte    // PolicyDigest of the policy that is announced next
	// Epsilon bounds the guarantee of the epoch's whole plan for the reports that came, with the delta of the terms;
	// EpsilonAlone is the same if no other device is honest. Not negative; +Inf where nothing is left; 0 if the cohort
	// was destroyed.
	Epsilon, EpsilonAlone float64
	Version               string // of the analyzer's program, at most 256 bytes
	// Lift is of this epoch and Total of all so far, in deployments with a control group; nil without one, and of a
	// cohort that was destroyed.
	Lift, Total *Lift
	// Unchanged is how probable sums like these are if the parameter is what it was before, in (0, 1]; 0: not tested.
	Unchanged float64
	Action    string // by the rules: ActionRollback, ActionStop or ""
}
