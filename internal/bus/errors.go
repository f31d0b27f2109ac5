package bus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

var (
	// ErrForbidden: the broker refuses this to the connection's role. Nothing happened, and repeating it will not help.
	ErrForbidden = errors.New("bus: forbidden to this role")

	// ErrTooLarge: the payload exceeds MaxMessage. Nothing was sent. Split it.
	ErrTooLarge = errors.New("bus: payload too large")

	// ErrExists: something else is stored under this name, and stays. See ExistsError for what.
	ErrExists = errors.New("bus: a different payload is stored under this name")

	// ErrTaken: the subject holds as many messages as it may, or its newest one is not the one that was expected.
	// Nothing was stored now. Only a Transport returns it.
	ErrTaken = errors.New("bus: subject taken")

	// ErrApart: the broker does not take these messages together, for instance because it has one of them. Nothing was
	// stored now; each can be published by itself. Only a Transport returns it.
	ErrApart = errors.New("bus: these messages cannot be stored together")

	// ErrMoved: the role's newest entry of the audit log is another one than the caller knows, or what it appends
	// is there already. Nothing was stored now. Read what came since.
	ErrMoved = errors.New("bus: the audit log has moved on")

	// ErrFull: the stream or the disk is full. Nothing was stored. Retry once there is room.
	ErrFull = errors.New("bus: the broker has no room for this")

	// ErrUnknown: the context ended before the broker answered. The payload may or may not be stored. Repeat the same
	// call: what is already stored is recognised. The error wraps the context's error and the last failure.
	ErrUnknown = errors.New("bus: no answer from the broker, outcome unknown")

	// ErrRefused: the broker repeatedly gives an answer that is not known here. The error wraps that answer. As far
	// as can be known, the request had no effect, and repeating it will not help: look up the answer's code in the
	// server's documentation.
	ErrRefused = errors.New("bus: refused by the broker")

	// ErrDisk: the broker cannot write to its disk. This lasts until the disk has room and the broker is restarted.
	// Calls keep trying until then, and end as ErrUnknown, which wraps this error.
	ErrDisk = errors.New("bus: the broker cannot write to its disk: free space there and restart it")

	// ErrGone: no message is stored there: it was purged, or never was. Nothing changed.
	ErrGone = errors.New("bus: not stored, or purged")

	// ErrNoShuffler: no shuffler serves enrolment now, or the broker is away. No shuffler was asked.
	ErrNoShuffler = errors.New("bus: no shuffler serves enrolment now")

	// ErrClosed: the connection was closed by Close. Nothing was sent.
	ErrClosed = errors.New("bus: connection closed")

	// ErrUnprovisioned: the broker runs but says that a stream or consumer is not there. Run Provision. A publish
	// into a missing stream is not answered at all, and ends as ErrUnknown.
	ErrUnprovisioned = errors.New("bus: stream missing: the broker is not provisioned")

	// ErrCredentials: the seed is missing or malformed, or the broker does not know its user.
	ErrCredentials = errors.New("bus: credentials refused")
)

// ExistsError carries what is stored. It is an ErrExists.
type ExistsError struct {
	Name   string // subject
	Stored []byte
}

func (e *ExistsError) Error() string { return fmt.Sprintf("%v: %s", ErrExists, e.Name) }

// Is makes errors.Is(err, ErrExists) true.
func (e *ExistsError) Is(target error) bool { return target == ErrExists }

// meaning is what follows from how a try ended.
type meaning int

const (
	final meaning = iota // the call is over: repeating it would bring the same
	// no answer, or one that says that there will be another later: the call is repeated while its context lives
	passing
	unknown // an answer that is not known here: the call is repeated a few times, then it is over
)

// Codes of the broker's answers, by what they mean to a call. nats.go names but a few of them; the names are the
// server's (errors.json).
var (
	// A message that a call names is not stored. (A role that may delete single messages would have to know 10043 and
	// some of the words of 10057 as well; none may.)
	goneCodes  = []jetstream.ErrorCode{jetstream.JSErrCodeMessageNotFound} // 10037, NoMessageFound
	takenCodes = []jetstream.ErrorCode{jetstream.JSErrCodeStreamWrongLastSequence,
		jetstream.JSErrCodeStreamWrongLastSequenceConstant}
	largeCodes = []jetstream.ErrorCode{jetstream.JSErrCodeStreamMessageExceedsMaximum}
	fullCodes  = []jetstream.ErrorCode{
		10002, // AccountResourcesExceeded
		10023, // InsufficientResources
		10028, // MemoryResourcesExceeded
		10047, // StorageResourcesExceeded
	}
	// StreamStoreFailed: the stream's limits refuse it; the words say which
	codeStoreFailed = jetstream.ErrorCode(10077)
	// AtomicPublish...: the stream or the server takes no batches, or not this one, or not now
	apartCodes   = []jetstream.ErrorCode{10174, 10176, 10177, 10199, 10201, 10210}
	missingCodes = []jetstream.ErrorCode{jetstream.JSErrCodeStreamNotFound, jetstream.JSErrCodeConsumerNotFound}
	passingCodes = []jetstream.ErrorCode{
		10004, // ClusterIncomplete
		10007, // ClusterNotAssigned
		10008, // ClusterNotAvail: no leader now
		10009, // ClusterNotLeader
		jetstream.JSErrCodeJetStreamNotEnabledForAccount, // 10039: a server that is starting, or that gave up its disk
		jetstream.JSErrCodeJetStreamNotEnabled,           // 10076
		10118,                                            // StreamOffline
		10119,                                            // ConsumerOffline
		// StreamDuplicateMessageConflict: the first copy is being stored
		10158,
		10163, // StreamExpectedLastSeqPerSubjectNotReady
		10167, // StreamTooManyRequests
	}
)

// diskWords are how a server's disk fails it, in whatever code: it keeps such an error until it is restarted.
var diskWords = []string{
	"no space left", "disk quota exceeded", "file too large", "read-only file system", "input/output error",
	"permission denied", "short write", "store is closed",
}

var (
	// errOddAnswer: an answer came that no server of the kind that is known here gives.
	errOddAnswer = errors.New("bus: answer not understood")
	// errBusy: the broker says that it will answer later.
	errBusy = errors.New("bus: the broker is busy")
	// errMissed: part of a batch did not arrive.
	errMissed = errors.New("bus: messages of a batch were lost on the way")
)

// unanswered are the ways in which no answer comes, besides those of the network.
var unanswered = []error{
	context.DeadlineExceeded, context.Canceled, errLost, errBusy, errMissed, ErrNoShuffler,
	nats.ErrTimeout, nats.ErrDisconnected, nats.ErrConnectionReconnecting, nats.ErrReconnectBufExceeded,
	nats.ErrStaleConnection,
	nats.ErrNoServers, nats.ErrSlowConsumer, nats.ErrBadSubscription,
}

// interpret says what the end of a try means. It is the only place that knows the broker's words, and gives them this
// package's.
func interpret(err error) (meaning, error) {
	var answer jetstream.JetStreamError
	var network net.Error
	switch {
	case errors.Is(err, ErrForbidden), errors.Is(err, ErrGone), errors.Is(err, ErrTooLarge), errors.Is(err,
		errNoReplica):
		return final, err
	case errors.Is(err, nats.ErrMaxPayload):
		return final, fmt.Errorf("%w (%v)", ErrTooLarge, err)
	case errors.Is(err, nats.ErrConnectionClosed):
		return final, fmt.Errorf("%w (%v)", ErrClosed, err)
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		// No stream stores this subject now. A broker that is starting says so as well, and provisioning may be about
		// to happen.
		return passing, fmt.Errorf("%w (%v)", ErrUnprovisioned, err)
	case errors.As(err, &answer) && answer.APIError() != nil:
		return interpretCode(answer.APIError())
	case slices.ContainsFunc(unanswered, func(e error) bool { return errors.Is(err, e) }), errors.As(err,
		&network), errors.Is(err, io.EOF):
		return passing, err
	}
	return unknown, err
}

func interpretCode(api *jetstream.APIError) (meaning, error) {
	says := func(words []string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(api.Description, w) })
	}
	is := func(codes []jetstream.ErrorCode) bool { return slices.Contains(codes, api.ErrorCode) }
	switch {
	case is(goneCodes):
		return final, fmt.Errorf("%w (%v)", ErrGone, api)
	case is(takenCodes), api.ErrorCode == codeStoreFailed && says([]string{"per subject"}):
		return final, ErrTaken
	case is(apartCodes):
		return final, fmt.Errorf("%w (%v)", ErrApart, api)
	case is(largeCodes):
		return final, fmt.Errorf("%w (%v)", ErrTooLarge, api)
	case api.Code >= 500 && says(diskWords):
		return passing, fmt.Errorf("%w (%v)", ErrDisk, api)
	case is(fullCodes), api.ErrorCode == codeStoreFailed:
		return final, fmt.Errorf("%w (%v)", ErrFull, api)
	case is(missingCodes):
		return passing, fmt.Errorf("%w (%v)", ErrUnprovisioned, api)
	case is(passingCodes):
		return passing, api
	case api.Code >= 500, api.Code == 409, api.Code == 429:
		return unknown, api
	}
	return final, refusal(api) // a bad request stays one
}

// refusal is how a call ends for which the broker has another answer than those that are known.
func refusal(err error) error { return fmt.Errorf("%w: %w", ErrRefused, err) }

// status reads what a replica answers in place of a stored message: nil where the answer is one.
func status(m *nats.Msg) error {
	switch s := m.Header.Get("Status"); s {
	case "":
		return nil
	case "404":
		return ErrGone
	case "503":
		return nats.ErrNoResponders
	case "429":
		return errBusy
	default:
		return fmt.Errorf("%w: status %s %s", errOddAnswer, s, m.Header.Get("Description"))
	}
}
