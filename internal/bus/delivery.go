package bus

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Delivery is one message of a durable consumer. It stays the consumer's until Ack: a Delivery that is neither
// acknowledged nor sent back within the consumer's AckWait is delivered again, here or at another worker.
type Delivery struct {
	Epoch       uint64
	Round       uint32
	Sequence    uint64 // place in the stream; for ever the same message
	Redelivered bool   // delivered before, here or elsewhere
	Payload     []byte
	msg         Settler
}

// NewDelivery is d as a broker hands it over that no Conn leads to: its methods are those of s.
func NewDelivery(d Delivery, s Settler) *Delivery {
	d.msg = s
	return &d
}

// delivery is an arrival of a round.
func delivery(a Arrival, epoch uint64, round uint32) *Delivery {
	return &Delivery{Epoch: epoch, Round: round, Sequence: a.Sequence, Redelivered: a.Redelivered, Payload: a.Data,
		msg: a.Settler}
}

// Ack tells the broker that the message is dealt with. Call it after what follows from it is durable. An error, or a
// lost Ack, means a redelivery; nothing is lost. It may be called later, from any goroutine, and more than once.
func (d *Delivery) Ack() error { return ackError(d.msg.Ack()) }

// Retry sends the message back, to be delivered again after a pause.
func (d *Delivery) Retry(after time.Duration) error { return ackError(d.msg.NakWithDelay(after)) }

func ackError(err error) error {
	if err == nil || errors.Is(err, jetstream.ErrMsgAlreadyAckd) {
		return nil
	}
	return fmt.Errorf("bus: acknowledge: %w", err)
}
