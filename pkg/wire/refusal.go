package wire

import "strconv"

// Refusal says why a role turned something away. It is the error, the metric label and the log field at once.
type Refusal int32

// The refusals. Their numbers are in messages.
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
	RefusalSponsorShare      Refusal = 17 // its sponsor holds as many slots of the cohort as one may
	// a bit message of the report is in it twice, or in another report of the round
	RefusalRepeatedMessage Refusal = 18
	RefusalBadProof        Refusal = 19 // the shares do not prove that every entry is in its range
	RefusalBadShare        Refusal = 20 // a share does not decode, or is of another report or round
	RefusalSecondKey       Refusal = 21 // a second verification key for one release
	RefusalSecondSet       Refusal = 22 // a second set of reports, or a second sum, for one release
	RefusalNotRegistered   Refusal = 23 // the device was not registered when the epoch's panel was drawn
	RefusalNotDrawn        Refusal = 24 // the device is not in the epoch's panel
	RefusalWrongLabels     Refusal = 25 // the labels of its bit messages are not the plan's, in the plan's order
	RefusalCapacity        Refusal = 26 // the shuffler knows as many devices as it lets in
	RefusalIssuerFull      Refusal = 27 // its issuer let in as many installations as its certificate says
)

// refusals are the words of each refusal, and what people are told of it, as the rest of "refused because ...".
var refusals = [...]struct{ word, means string }{
	NoRefusal:              {"unspecified", ""},
	RefusalMalformed:       {"malformed", "it does not decode, or a field of it is out of range"},
	RefusalWrongDeployment: {"wrong_deployment", "it is of another deployment"},
	RefusalBadSignature:    {"bad_signature", "its signature is not that of the device that it names"},
	RefusalNoCredential:    {"no_credential", "the registrar did not admit its host, or not for this device"},
	RefusalWrongEpoch:      {"wrong_epoch", "it is of another epoch than the open one"},
	RefusalWrongAnnouncement: {"wrong_announcement",
		"its device saw another announcement than the one that this release admits"},
	RefusalCohortFull:      {"cohort_full", "the cohort had no place left"},
	RefusalEnrolmentClosed: {"enrolment_closed", "enrolment was over"},
	RefusalAlreadyEnrolled: {"already_enrolled", "its device enrolled before, in this cohort or an earlier one"},
	RefusalNotEnrolled:     {"not_enrolled", "its device has no slot in the cohort"},
	RefusalDuplicate:       {"duplicate", "it is a copy of a report that was admitted already"},
	RefusalAlreadyReported: {"already_reported", "its slot has another report already"},
	RefusalLate:            {"late", "it came after the deadline"},
	RefusalUndecryptable:   {"undecryptable", "no key of the role opens it"},
	RefusalWrongSize:       {"wrong_size", "it does not have exactly the planned size"},
	RefusalWeakPlan:        {"weak_plan", "the plan is below the role's own minimum cohort"},
	RefusalSponsorShare: {"sponsor_share",
		"the issuer of its credential, or else its host, holds as many slots as one may"},
	RefusalRepeatedMessage: {"repeated_message",
		"a message in it occurs twice, in it or in another report of the round"},
	RefusalBadProof:  {"bad_proof", "its proof does not show that every entry is in range"},
	RefusalBadShare:  {"bad_share", "a share of it does not decode, or is of another report or round"},
	RefusalSecondKey: {"second_key", "it came with a second verification key for one release"},
	RefusalSecondSet: {"second_set",
		"it belongs to a second set of reports, or a second sum, for one release"},
	RefusalNotRegistered: {"not_registered", "its device was not registered when the epoch's panel was drawn"},
	RefusalNotDrawn:      {"not_drawn", "its device is not in the epoch's panel"},
	RefusalWrongLabels: {"wrong_labels",
		"it does not have exactly the planned number of messages for each number"},
	RefusalCapacity:   {"capacity", "the shuffler knows as many devices as it lets in"},
	RefusalIssuerFull: {"issuer_full", "its issuer let in as many installations as its certificate says"},
}

// String is the refusal in words joined by underscores, as "cohort_full".
func (r Refusal) String() string {
	if r.known() {
		return refusals[r].word
	}
	return strconv.Itoa(int(r))
}

func (r Refusal) known() bool { return r >= 0 && int(r) < len(refusals) }

// Refusals lists every refusal, in the order of their numbers.
func Refusals() []Refusal {
	var all []Refusal
	for n := range refusals[1:] {
		all = append(all, Refusal(n+1))
	}
	return all
}

// Means says for people why something was refused, as the rest of a sentence "refused because ...".
func (r Refusal) Means() string {
	if r.known() && r != NoRefusal {
		return refusals[r].means
	}
	return "of a reason that this version does not know"
}
