package wire

import (
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/pkg/seal"
)

var (
	// ErrMalformed means bytes that are not the one encoding of a message of this type.
	ErrMalformed = errors.New("not a well-formed message")
	// ErrTooLarge means more bytes than such a message may have.
	ErrTooLarge = errors.New("message too large")
	// ErrSize means a report or chunk of another length than its plan gives.
	ErrSize = errors.New("wrong size")
	// ErrSigner means a statement that another key signed than the expected one.
	ErrSigner = errors.New("signed with another key than expected")
	// ErrForeign marks every error of Open where the expected party did not sign the bytes for this deployment: any
	// writer to that place can have put them there. Other errors are about what the party did sign.
	ErrForeign = errors.New("not a statement of the expected party")
	// ErrPlace means an announcement that is stored under another round or epoch than it is about.
	ErrPlace = errors.New("stored under another round than it is about")
	// ErrSignature means that the signature does not verify.
	ErrSignature = seal.ErrSignature
	// ErrDeployment means a statement of another deployment.
	ErrDeployment = errors.New("statement of another deployment")
	// ErrCredential means that a device may not do this: its credential is not the registrar's, or covers other hosts
	// or devices.
	ErrCredential = errors.New("no credential for this device")
	// ErrProof means shares that decode but do not prove that every entry is in its range.
	ErrProof = errors.New("the shares do not prove that every entry is in its range")
	// ErrLabels means a report whose bit messages do not have the plan's labels, in the plan's order.
	ErrLabels = errors.New("not the planned labels")
	// ErrShare means a share that does not decode, or that is of another report or round.
	ErrShare = errors.New("not a share of this report and round")
)

// foreign marks an error as ErrForeign and leaves its words.
type foreign struct{ error }

func (f foreign) Is(target error) bool { return target == ErrForeign }
func (f foreign) Unwrap() error        { return f.error }

// FieldError says which field of a message is out of range, and why.
type FieldError struct {
	Message string // "announcement", "report", ...
	Field   string // path inside the message, as "plan.rounds[0].releases[1].bias"
	Problem string // what is wrong with it
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("%s: %s %s", e.Message, e.Field, e.Problem)
}

// field makes a FieldError without the message's name, which named adds.
func field(path, problem string, a ...any) error {
	return &FieldError{Field: path, Problem: fmt.Sprintf(problem, a...)}
}

// inside puts a path before the field of a FieldError, as "plan." or "encodings[1].".
func inside(prefix string, err error) error {
	var e *FieldError
	if errors.As(err, &e) {
		e.Field = prefix + e.Field
	}
	return err
}

// named says which message an error is about.
func named(message string, err error) error {
	if err == nil {
		return nil
	}
	var e *FieldError
	if errors.As(err, &e) && e.Message == "" {
		e.Message = message
		return err
	}
	return fmt.Errorf("%s: %w", message, err)
}

// Reason is the refusal that an error of this package amounts to: NoRefusal for nil, RefusalMalformed where nothing
// more precise is known.
func Reason(err error) Refusal {
	switch {
	case err == nil:
		return NoRefusal
	case errors.Is(err, ErrDeployment):
		return RefusalWrongDeployment
	case errors.Is(err, ErrCredential):
		return RefusalNoCredential
	case errors.Is(err, ErrSigner), errors.Is(err, ErrSignature):
		return RefusalBadSignature
	case errors.Is(err, ErrSize):
		return RefusalWrongSize
	case errors.Is(err, seal.ErrOpen), errors.Is(err, seal.ErrUnknownKey):
		return RefusalUndecryptable
	case errors.Is(err, ErrProof):
		return RefusalBadProof
	case errors.Is(err, ErrLabels):
		return RefusalWrongLabels
	case errors.Is(err, ErrShare):
		return RefusalBadShare
	}
	return RefusalMalformed
}
