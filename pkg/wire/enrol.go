package wire

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
)

func checkEnrolRequest(r *EnrolRequest) error {
	if r.Epoch == 0 { // the device registers
		if err := CheckDeployment(r.Deployment); err != nil {
			return err
		}
		if len(r.Announcement) != 0 {
			return field("announcement", "must be absent where epoch is 0, so that the device registers")
		}
		if len(r.Further) != 0 {
			return field("further", "must be absent where epoch is 0, so that the device registers")
		}
	} else if err := checkPlace(r.Deployment, r.Epoch, 0); err != nil {
		return err
	} else if err := checkLength("announcement", r.Announcement, digestSize); err != nil {
		return err
	}
	if len(r.Further) > MaxFurther {
		return field("further", "has %d devices, at most %d", len(r.Further), MaxFurther)
	}
	for i, last := 0, r.Device; i < len(r.Further); i++ {
		if r.Further[i] <= last {
			return field("further", "must ascend, and begin above device")
		}
		last = r.Further[i]
	}
	if n := len(r.Nonces); n != 0 && n != len(r.Further)+1 {
		return field("nonces", "has %d, must have none or one for each of %d devices", n, len(r.Further)+1)
	}
	if slices.Contains(r.Nonces, 0) {
		return field("nonces", "has a 0, which is none")
	}
	if r.Credential == nil {
		return field("credential", "is missing")
	}
	// OpenEnrolRequest looks inside, after the deployment.
	if _, err := unmarshal(sealedFields, r.Credential); err != nil {
		return fmt.Errorf("%w: %w", ErrCredential, err)
	}
	return nil
}

func checkEnrolReply(r *EnrolReply) error {
	if err := checkLength("request", r.Request, digestSize); err != nil {
		return err
	}
	for _, f := range []struct {
		name   string
		signed []byte
	}{{"pool", r.Pool}, {"draw", r.Draw}} {
		if len(f.signed) > MaxContribution {
			return field(f.name, "has %d bytes, at most %d", len(f.signed), MaxContribution)
		}
		if len(f.signed) > 0 && !r.Enrolled && r.Refusal != RefusalNotDrawn {
			return field(f.name, "must be absent where the device is refused for another reason than %s",
				RefusalNotDrawn)
		}
	}
	if (len(r.Pool) == 0) != (len(r.Draw) == 0) {
		return field("pool", "and draw must be there together")
	}
	if n := len(r.Ticket); n != 0 && (n != TicketSize || !r.Enrolled || len(r.Further) > 0) {
		return field("ticket", "has %d bytes, must have %d, and none unless one device alone is enrolled", n,
			TicketSize)
	}
	if len(r.Further) > MaxFurther || len(r.Further) > 0 && len(r.Pool) > 0 {
		return field("further", "has %d answers, at most %d, and none where there is a pool", len(r.Further),
			MaxFurther)
	}
	for i := range r.Further {
		if err := checkAnswer(r.Of(i + 1)); err != nil {
			return err
		}
	}
	return checkAnswer(r)
}

// checkAnswer checks what a reply says to one device.
func checkAnswer(r *EnrolReply) error {
	if r.Enrolled {
		if r.Refusal != NoRefusal {
			return field("refusal", "must be absent where the device is enrolled")
		}
		if n := len(r.Commitment); n != 0 && n != digestSize {
			return field("commitment", "has %d bytes, must have none or %d", n, digestSize)
		}
		// A report is due after the reward window and the jitter, which may be MaxTiming each.
		return checkTime("report_after_ms", r.ReportAfter, math.MaxUint32)
	}
	if !r.Refusal.known() || r.Refusal == NoRefusal {
		return field("refusal", "is %d, which is no reason", r.Refusal)
	}
	if r.Held {
		return field("held", "must be absent where the device is refused")
	}
	if r.Slot != 0 || r.ReportAfter != 0 {
		return field("slot", "and report_after_ms must be 0 where the device is refused")
	}
	if len(r.Commitment) != 0 {
		return field("commitment", "must be absent where the device is refused")
	}
	return nil
}

// Enrolment is a verified request: devices of a host that is admitted ask to be enrolled.
type Enrolment struct {
	Request *EnrolRequest
	Admission
	Digest [32]byte // SHA-256 of the request's Signed bytes, for the reply
}

// OpenEnrolRequest verifies and checks a request: made for this deployment, signed by a host whose credential admits it
// in the epoch that it asks for, for devices that the credential covers. Whether the device may still enrol is the
// caller's to know; where it registers, which epoch there is, too (Admission.In).
//
// The digest is set even where an error is returned: a refusal names the request too.
func (k *Credentials) OpenEnrolRequest(signed []byte) (Enrolment, error) {
	out := Enrolment{Digest: sum(signed)}
	o, err := open[EnrolRequest](signed, nil)
	if err != nil {
		return out, err
	}
	if o.deployment != k.registrar.Deployment {
		return out, named("enrol-request",
			fmt.Errorf("%w: %q, expected %q", ErrDeployment, o.deployment, k.registrar.Deployment))
	}
	admission, err := k.Open(o.statement.Credential)
	switch {
	case err != nil:
	case !bytes.Equal(admission.Key[:], o.signer):
		err = errors.New("it is another host's")
	case slices.Max(o.statement.Devices()) >= admission.Covers:
		err = fmt.Errorf("device %d of a host with %d", slices.Max(o.statement.Devices()), admission.Covers)
	case o.statement.Epoch > 0:
		err = admission.In(o.statement.Epoch)
	}
	if err != nil && !errors.Is(err, ErrCredential) {
		err = fmt.Errorf("%w: %w", ErrCredential, err)
	}
	if err != nil {
		return out, named("enrol-request", err)
	}
	out.Request, out.Admission = o.statement, admission
	return out, nil
}

// OpenEnrolRequest is the method of Credentials, for one request.
func OpenEnrolRequest(signed []byte, registrar Party) (Enrolment, error) {
	return NewCredentials(registrar).OpenEnrolRequest(signed)
}

// RequestDigest is what an enrolment reply names its request by: SHA-256 of the request's Signed bytes.
func RequestDigest(signed []byte) [32]byte { return sum(signed) }

// OpenEnrolReply verifies and checks the shuffler's reply to the request with the given digest. A reply to another
// request is ErrMalformed.
func OpenEnrolReply(signed, shuffler []byte, request [32]byte) (*EnrolReply, error) {
	if len(shuffler) != keySize {
		return nil, named("enrol-reply", ErrSigner)
	}
	o, err := open[EnrolReply](signed, shuffler)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(o.statement.Request, request[:]) {
		return nil, named("enrol-reply", field("request", "is another request's digest"))
	}
	return o.statement, nil
}
