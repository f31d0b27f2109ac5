package wire

import (
	"fmt"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// SplitCredential takes a signed credential apart, for messages of a fixed length: CheckCredential puts it together
// again. It does not verify it.
func SplitCredential(signed []byte) (c Credential, signature [seal.SignatureSize]byte, err error) {
	outer, err := openSigned(signed, MaxEnrolment)
	if err != nil {
		return c, signature, named("credential", err)
	}
	m := new(rifflev1.Credential)
	if err := unmarshal(outer.Body, m); err != nil {
		return c, signature, named("credential", err)
	}
	c = *credentialOf(m)
	if err := checkCredential(&c); err != nil {
		return c, signature, named("credential", err)
	}
	return c, [seal.SignatureSize]byte(outer.Signature), nil
}

// CheckCredential verifies that the registrar signed this credential for its deployment. Errors are Open's.
func CheckCredential(c Credential, signature []byte, registrar Party) error {
	if err := checkCredential(&c); err != nil {
		return named("credential", err)
	}
	if c.Deployment != registrar.Deployment {
		return named("credential", fmt.Errorf("%w: %q, expected %q", ErrDeployment, c.Deployment, registrar.Deployment))
	}
	body, err := marshal(credentialMessage(&c))
	if err == nil {
		err = seal.Verify(seal.Credential, body, registrar.Key, signature)
	}
	return named("credential", err)
}
