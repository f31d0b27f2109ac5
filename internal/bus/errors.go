package bus

import (
	"errors"
	"fmt"
)

var (
	// ErrForbidden: the broker refuses this to the connection's role. Nothing happened, and repeating it will not help.
	ErrForbidden = errors.New("bus: forbidden to this role")

	// ErrTooLarge: the payload exceeds MaxMessage. Nothing was sent. Split it.
	ErrTooLarge = errors.New("bus: payload too large")

	// ErrExists: something else is stored under this name, and stays. See ExistsError for what.
	ErrExists = errors.New("bus: a different payload is stored under this name")

	// ErrTaken: the subject holds as many messages as it may, or its newest one is not the one that was expected. Nothing
	// was stored now. Only a Transport returns it.
	ErrTaken = errors.New("bus: subject taken")

	// ErrMoved: the role's newest entry of the audit log is another one than the caller knows, or what it appends stands
	// there already. Nothing was stored now. Read what came since.
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
