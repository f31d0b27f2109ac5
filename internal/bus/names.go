package bus

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Role is who a connection is. Every role has its own keys and its own account on the broker.
type Role string

const (
	Admin      Role = "admin"      // provisions streams; part of the broker's own trust domain
	Randomizer Role = "randomizer" // devices, or hosts of many devices
	Ingress    Role = "ingress"    // the way in over HTTPS for devices that are no users of the broker
	Shuffler   Role = "shuffler"
	Analyzer   Role = "analyzer"
	Auditor    Role = "auditor"
)

// Roles lists every role, admin first.
func Roles() []Role { return []Role{Admin, Randomizer, Ingress, Shuffler, Analyzer, Auditor} }

func (r Role) valid() bool { return slices.Contains(Roles(), r) }

// Streams and buckets.
const (
	StreamReports        = "REPORTS"          // sealed reports, from their arrival to the release's purge
	StreamMixed          = "MIXED"            // chunks of permuted bit messages, and manifests
	StreamPrepared       = "PREPARED"         // the analyzer's answers to the shuffler, of rounds under way
	StreamRetained       = "RETAINED"         // forwarded chunks, sealed to the auditor, for a window
	StreamMixing         = "MIXING"           // what mixing processes of one shuffler hand each other, sealed
	StreamTasks          = "TASKS_"           // and the role: tasks for its workers, sealed, each until it is done
	StreamAudit          = "AUDIT"            // signed statements, append-only
	BucketAnnouncements  = "announcements"    // key <epoch>.<round>.<digest>, written once each
	BucketKeys           = "keys"             // key <role>, newest value counts
	StreamAnnouncements  = "KV_announcements" // the stream under the bucket
	StreamKeys           = "KV_keys"
	ConsumerReports      = "shuffler" // durable consumer of REPORTS
	ConsumerMixed        = "analyzer" // durable consumer of MIXED
	ConsumerTasks        = "workers"  // durable consumer of a role's tasks, which all its workers share
	QueueEnrol           = "shuffler" // queue group that serves enrolment
	QueueLead            = "lead"     // queue group that answers workers
	headerMsgID          = "Nats-Msg-Id"
	headerRound          = "Riffle-Round" // of a report: <epoch>.<round>
	headerExpectLast     = "Nats-Expected-Last-Subject-Sequence"
	headerExpectOf       = "Nats-Expected-Last-Subject-Sequence-Subject" // of what subjects
	subjectPrefix        = "riffle.v1."
	SubjectReport        = subjectPrefix + "report"     // .<the host's public key as a user of the broker>
	SubjectMixed         = subjectPrefix + "mixed"      // .<epoch>.<round>.<index>
	SubjectManifest      = subjectPrefix + "manifest"   // .<epoch>.<round>
	SubjectPrepared      = subjectPrefix + "prepared"   // .<epoch>.<round>.<index>
	SubjectRetained      = subjectPrefix + "retained"   // .<epoch>.<round>.<index>
	SubjectMixing        = subjectPrefix + "mixing"     // .<epoch>.<round>.<name>.<bucket>
	SubjectTasks         = subjectPrefix + "tasks"      // .<role>
	SubjectLead          = subjectPrefix + "lead"       // .<role>, request and reply within the role's own account
	SubjectAudit         = subjectPrefix + "audit"      // .<role>.<kind>.<digest of the statement>
	SubjectEnrol         = subjectPrefix + "enrol"      // request and reply
	SubjectAnnounced     = subjectPrefix + "announced"  // .<epoch>.<round>, a notice that an announcement was stored
	SubjectAnswered      = subjectPrefix + "answered"   // .<epoch>.<round>, a notice that an answer was stored
	SubjectRekeyed       = subjectPrefix + "rekeyed"    // .<role>, a notice that a key set was stored
	SubjectAnnouncements = "$KV." + BucketAnnouncements // .<epoch>.<round>.<digest of the payload>
	SubjectKeys          = "$KV." + BucketKeys          // .<role>
	APILocal             = subjectPrefix + "js"         // where a role finds the JetStream calls it may make
	APIStreams           = "$JS.API"                    // the same in the account that holds the streams
	InboxPrefix          = "_INBOX"                     // .<role>.<user's public key>
	MaxPayload           = 8 << 20                      // bytes of one message that the broker takes
	// bytes that a payload given to this package may have; the rest is for headers
	MaxMessage = MaxPayload - 4096
	maxKind    = 64  // bytes of an audit kind
	maxMsgID   = 128 // bytes of a message id
)

// ErrBadName is returned for an audit kind, message id or round that cannot be part of a subject. Nothing was sent.
var ErrBadName = errors.New("bus: bad name")

// Inbox is where a user of a role hears replies. Not even another user of the same role may listen there.
func Inbox(r Role, user string) string { return InboxPrefix + "." + string(r) + "." + user }

func subjectReport(host string) string { return SubjectReport + "." + host }

func subjectRound(prefix string, epoch uint64, round uint32) string {
	return prefix + "." + roundName(epoch, round)
}

// roundName is <epoch>.<round>.
func roundName(epoch uint64, round uint32) string {
	return strconv.FormatUint(epoch, 10) + "." + strconv.FormatUint(uint64(round), 10)
}

func subjectChunk(epoch uint64, round, index uint32) string {
	return subjectRound(SubjectMixed, epoch, round) + "." + strconv.FormatUint(uint64(index), 10)
}

// parseRound reads <prefix>.<epoch>.<round>[.<index>], as parseRoundName does.
func parseRound(subject, prefix string, indexed bool) (epoch uint64, round, index uint32, err error) {
	name, ok := strings.CutPrefix(subject, prefix+".")
	if !ok {
		return 0, 0, 0, fmt.Errorf("%w: subject %q does not begin with %s", ErrBadName, subject, prefix)
	}
	return parseRoundName(name, indexed)
}

// parseRoundName reads <epoch>.<round>[.<index>]; index is 0 where absent. Only the canonical decimal form is
// accepted, so that one round has one name.
func parseRoundName(name string, indexed bool) (epoch uint64, round, index uint32, err error) {
	parts := strings.Split(name, ".")
	want := 2
	if indexed {
		want = 3
	}
	bad := func() error {
		return fmt.Errorf("%w: %q is not <epoch>.<round>", ErrBadName, name)
	}
	if len(parts) != want {
		return 0, 0, 0, bad()
	}
	var n [3]uint64
	for i, p := range parts {
		bits := 32
		if i == 0 {
			bits = 64
		}
		v, perr := strconv.ParseUint(p, 10, bits)
		if perr != nil || strconv.FormatUint(v, 10) != p {
			return 0, 0, 0, bad()
		}
		n[i] = v
	}
	return n[0], uint32(n[1]), uint32(n[2]), nil
}

// checkToken accepts what may be one token of a subject.
func checkToken(what, s string, max int) error {
	if s == "" || len(s) > max {
		return fmt.Errorf("%w: %s must have 1 to %d bytes, has %d", ErrBadName, what, max, len(s))
	}
	for _, c := range []byte(s) {
		ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
		if !ok {
			return fmt.Errorf("%w: %s %q may only hold letters, digits, - and _", ErrBadName, what, s)
		}
	}
	return nil
}
