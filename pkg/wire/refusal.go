package wire

import (
	"strings"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
)

// Refusal says why a role turned something away. It is the error, the metric label and the log field at once.
type Refusal int32

// The refusals. Their numbers stand in messages.
const (
	NoRefusal                Refusal = 0
	RefusalMalformed         Refusal = 1 // does not decode, or a field is out of range
	RefusalWrongDeployment   Refusal = 2
	RefusalBadSignature      Refusal = 3
	RefusalNoCredential      Refusal = 4 // not signed by the registrar, or not for this device
	RefusalWrongEpoch        Refusal = 5 // not the epoch that is open
	RefusalWrongAnnouncement Refusal = 6 // digest differs from the one this release admits
	RefusalCohortFull        Refusal = 7
	RefusalEnrolmentClosed   Refusal = 8
	RefusalAlreadyEnrolled   Refusal = 9 // in this or an earlier cohort
	RefusalNotEnrolled       Refusal = 10
	RefusalDuplicate         Refusal = 11 // a copy of a report already admitted
	RefusalAlreadyReported   Refusal = 12 // a different report for a slot that has one
	RefusalLate              Refusal = 13 // after the deadline
	RefusalUndecryptable     Refusal = 14 // no key opens it
	RefusalWrongSize         Refusal = 15 // not exactly the plan's number of bit messages
	RefusalWeakPlan          Refusal = 16 // below the role's own minimum cohort
	RefusalHostShare         Refusal = 17 // the host holds as many slots of the cohort as one host may
	// a bit message of the report stands in it twice, or in another report of the round
	RefusalRepeatedMessage Refusal = 18
	RefusalBadProof        Refusal = 19 // the shares do not prove that every entry is in its range
	RefusalBadShare        Refusal = 20 // a share does not decode, or is of another report or round
	RefusalSecondKey       Refusal = 21 // a second verification key for one release
	RefusalSecondSet       Refusal = 22 // a second set of reports, or a second sum, for one release
)

// String is the refusal in words joined by underscores, as "cohort_full".
func (r Refusal) String() string {
	return strings.ToLower(strings.TrimPrefix(rifflev1.Refusal(r).String(), "REFUSAL_"))
}

// Refusals lists every refusal, in the order of their numbers.
func Refusals() []Refusal {
	var all []Refusal
	for n := int32(1); n < int32(len(rifflev1.Refusal_name)); n++ {
		all = append(all, Refusal(n))
	}
	return all
}
