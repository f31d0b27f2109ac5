// Package channel declares what differs between the ways in which a cohort's sums reach the analyzer, one interface per
// side. Each channel has a package of its own below; simulated holds the ones that simulations compare.
//
// An interface here says nothing of trust: what a channel hides, from whom, and whose noise it counts is said in its
// own package.
package channel

import (
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// Sender is whose report a payload is made for.
type Sender struct {
	Identity   seal.Signer // of the device's host
	Credential []byte      // signed by the registrar: it admits the host's devices
	Number     uint32      // of the device among them
	// Commitment is what the shuffler's reply to the device's enrolment said of the channel; nil where nothing.
	Commitment []byte
}

// Device is a device's side of a channel, for one announced round: it turns the vectors of a record into the payload of
// a report. An implementation is pure but for the randomness of its encryption, and safe for concurrent use.
type Device interface {
	// Size is the length in bytes of the payload of every report of the round. It depends on the announcement alone.
	Size() int
	// Append appends the payload of one report to dst: Size bytes. vectors has one vector per release of the round, in
	// the plan's order and in data units. A channel that names the sender in the payload seals it to the analyzer. All
	// rounding and noise come from src: the number of words that are drawn does not depend on the vectors. The vectors
	// are not kept. An error is about the announcement or about vectors of another shape than it says.
	Append(dst []byte, by Sender, vectors [][]float64, src protocol.Source) ([]byte, error)
}
