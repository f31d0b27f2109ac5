package wire

import (
	"bytes"
	"fmt"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
)

func checkCredential(c *rifflev1.Credential) error {
	if err := CheckDeployment(c.Deployment); err != nil {
		return err
	}
	if err := checkLength("host_key", c.HostKey, keySize); err != nil {
		return err
	}
	if c.Devices == 0 {
		return field("devices", "is 0: a credential for nobody")
	}
	return nil
}

func checkEnrolRequest(r *rifflev1.EnrolRequest) error {
	if err := checkPlace(r.Deployment, r.Epoch, 0); err != nil {
		return err
	}
	if err := checkLength("announcement", r.Announcement, digestSize); err != nil {
		return err
	}
	if r.Credential == nil {
		return field("credential", "is missing")
	}
	return nil
}

func checkEnrolReply(r *rifflev1.EnrolReply) error {
	if err := checkLength("request", r.Request, digestSize); err != nil {
		return err
	}
	if r.Enrolled {
		if r.Refusal != rifflev1.Refusal_REFUSAL_UNSPECIFIED {
			return field("refusal", "must be absent where the device is enrolled")
		}
		return nil
	}
	if _, known := rifflev1.Refusal_name[int32(r.Refusal)]; !known || r.Refusal == rifflev1.Refusal_REFUSAL_UNSPECIFIED {
		return field("refusal", "is %d, which is no reason", r.Refusal)
	}
	if r.Held {
		return field("held", "must be absent where the device is refused")
	}
	if r.Slot != 0 || r.ReportAfterMs != 0 {
		return field("slot", "and report_after_ms must be 0 where the device is refused")
	}
	return nil
}

// Enrolment is a verified request: a device of a host that the registrar admits asks to be enrolled.
type Enrolment struct {
	Request *EnrolRequest
	HostKey [32]byte // the host's Ed25519 public key
	Digest  [32]byte // SHA-256 of the request's Signed bytes, for the reply
}

// OpenEnrolRequest verifies and checks a request: made for this deployment, signed by a host whose credential the registrar signed, for a device
// that the credential covers. registrar names the deployment and the registrar's key. Whether the device may still enrol is the caller's to know.
//
// The digest is set even where an error is returned: a refusal names the request too.
func OpenEnrolRequest(signed []byte, registrar Party) (Enrolment, error) {
	out := Enrolment{Digest: sum(signed)}
	request := new(rifflev1.EnrolRequest)
	if _, err := open(signed, nil, request); err != nil {
		return out, err
	}
	if request.Deployment != registrar.Deployment {
		return out, named("enrol-request", fmt.Errorf("%w: %q, expected %q", ErrDeployment, request.Deployment, registrar.Deployment))
	}
	outer, err := openSigned(signed, MaxEnrolment)
	if err != nil {
		return out, named("enrol-request", err)
	}
	inner, err := marshal(request.Credential)
	if err != nil {
		return out, named("enrol-request", err)
	}
	credential, _, err := Open[Credential](inner, registrar)
	if err != nil {
		return out, named("enrol-request", fmt.Errorf("%w: %w", ErrCredential, err))
	}
	if !bytes.Equal(credential.HostKey, outer.Key) {
		return out, named("enrol-request", fmt.Errorf("%w: it is another host's", ErrCredential))
	}
	if request.Device >= credential.Devices {
		return out, named("enrol-request", fmt.Errorf("%w: device %d of a host with %d", ErrCredential, request.Device, credential.Devices))
	}
	out.Request = statementOf(request).(*EnrolRequest)
	copy(out.HostKey[:], outer.Key)
	return out, nil
}

// RequestDigest is what an enrolment reply names its request by: SHA-256 of the request's Signed bytes.
func RequestDigest(signed []byte) [32]byte { return sum(signed) }

// OpenEnrolReply verifies and checks the shuffler's reply to the request with the given digest. A reply to another request is ErrMalformed.
func OpenEnrolReply(signed, shuffler []byte, request [32]byte) (*EnrolReply, error) {
	if len(shuffler) != keySize {
		return nil, named("enrol-reply", ErrSigner)
	}
	reply := new(rifflev1.EnrolReply)
	if _, err := open(signed, shuffler, reply); err != nil {
		return nil, err
	}
	if !bytes.Equal(reply.Request, request[:]) {
		return nil, named("enrol-reply", field("request", "is another request's digest"))
	}
	return statementOf(reply).(*EnrolReply), nil
}
