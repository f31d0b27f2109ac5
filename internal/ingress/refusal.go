package ingress

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/problem"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Why a request is not done. Those that are names of refusals mean what they mean between roles.
var (
	Malformed = reason(wire.RefusalMalformed) // a path, a query or a length that cannot be
	WrongSize = reason(wire.RefusalWrongSize) // a body of another size than requests, or reports of the round, have
	Late      = reason(wire.RefusalLate)      // the report's round is over
)

const (
	NotFound     outcome.Reason = "not_found"
	NotAnnounced outcome.Reason = "not_announced" // the round is not announced yet, or not here
	NoKeys       outcome.Reason = "no_keys"       // the shuffler's keys are not known yet
	NoTicket     outcome.Reason = "no_ticket"     // none, or not the one of the report's slot
	WrongDigest  outcome.Reason = "wrong_digest"  // the body is not the one that the path names
	Repeated     outcome.Reason = "repeated"      // the ticket's report of the round is stored, and is another one
	Slow         outcome.Reason = "slow"          // the body did not come in time
	Rate         outcome.Reason = "rate"          // too many requests from this network
	Busy         outcome.Reason = "busy"          // as many requests are under way as memory is for
	NoRoom       outcome.Reason = "no_room"       // the broker keeps no more reports now
	Unavailable  outcome.Reason = "unavailable"   // nobody was asked: no shuffler, or no broker
	Unknown      outcome.Reason = "unknown"       // it may have been done: repeat the same request
)

func reason(r wire.Refusal) outcome.Reason { return outcome.Reason(r.String()) }

// ReportReasons lists why a report may not be taken.
func ReportReasons() []outcome.Reason {
	return []outcome.Reason{Malformed, WrongSize, Late, NotAnnounced, NoTicket, WrongDigest, Repeated, Slow, Rate, Busy,
		NoRoom, Unavailable, Unknown}
}

// EnrolmentReasons lists why a request for enrolment may have no reply.
func EnrolmentReasons() []outcome.Reason {
	return []outcome.Reason{Malformed, WrongSize, Slow, Rate, Busy, Unavailable, Unknown}
}

// A refusal is why a request is not done, and what is answered.
type refusal struct {
	status int
	reason outcome.Reason
	detail string
	retry  time.Duration // after which the same request may do; 0: never
}

// Error is what is answered.
func (r *refusal) Error() string { return fmt.Sprintf("%s: %s", r.reason, r.detail) }

// Unwrap is the reason.
func (r *refusal) Unwrap() error { return r.reason }

func wrong(status int, why outcome.Reason, format string, v ...any) *refusal {
	return &refusal{status, why, fmt.Sprintf(format, v...), 0}
}

// later is a refusal that passes.
func later(after time.Duration, why outcome.Reason, format string, v ...any) *refusal {
	return &refusal{http.StatusServiceUnavailable, why, fmt.Sprintf(format, v...), after}
}

// answer answers with problem details.
func (r *refusal) answer(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	if r.retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((r.retry + time.Second - 1).Seconds())))
	}
	problem.Write(w, r.status, string(r.reason), r.detail)
}
