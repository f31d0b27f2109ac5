package randomizer

import (
	"fmt"

	"github.com/riffle-dp/riffle/internal/randomizer/store"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/device"
)

// rollbackRemedy is what an operator can do.
const rollbackRemedy = "stop the randomizer and restore the newest copy of its state folder, or make sure that no " +
	"other process runs under this host's identity; " +
	"where there is no newer copy this host must not take part in this deployment any more: give it a new identity " +
	"and credential"

// rollback ends the host's part where its state is proved old.
type rollback struct {
	*core
	promises *promises
}

// prove stops the host's part in the deployment for good, because the shuffler knows of a device what this store
// never kept. The mark is durable: a restart does not forget it, only a newer store does not have it. This process
// stops whether or not the mark can be written.
//
// Why there is no false alarm: a device's question is durable before its first request leaves, so what the shuffler
// knows of a device, the store that asked for it knows too, at whatever moment the process was killed. Within one
// question the shuffler may have heard an earlier try whose answer was lost, and then speaks of a slot that the device
// has; so its word proves something only where every try before was answered, or not heard by the shuffler, and no
// earlier process left the question open (heard, in resolve). A try is a single message: the broker's client never
// writes one twice. "Held" then speaks of a request that this store does not have; "already enrolled" of an earlier
// cohort, where an entry that was asked for without an answer stays in the ledger for ever, so it is proof where the
// ledger holds no other entry.
//
// Where panels are drawn, the shuffler speaks of a registration, which is durable here before it is asked for; and of a
// report, whose promise is marked as spent here, durably, before it leaves.
//
// "Held" is said of another question than the one that the request names by its nonce, which is durable here too. So it
// does not matter if the broker delivers a request twice, or says of one that no shuffler heard it when one has: the
// next request in this epoch has the same nonce. What the shuffler says of earlier epochs proves nothing once a
// question was taken back upon the broker's word alone (State.Request).
//
// What it misses: a first question whose first try got no answer is not judged. Its device then takes the slot that
// its number had before, which the shuffler lets report once. The host's next numbers are judged again.
func (b *rollback) prove(detail string) (why, err error) {
	b.mu.Lock()
	first := b.rolledBack == nil
	if first {
		b.rolledBack = fmt.Errorf("%w: %s", device.ErrRolledBack, detail)
		close(b.changed) // ends the other questions
		b.changed = make(chan struct{})
		b.say() // before anybody is told of it by a refusal
	}
	b.mu.Unlock()
	for _, s := range b.promises.sessions() { // one that is opened from here on is dropped by who promises
		s.dev.mu.Lock()
		if !s.record.Over() {
			b.promises.drop(s, StateRolledBack)
		}
		s.dev.mu.Unlock()
	}
	if err := b.store.PutNote(store.RolledBack, []byte(detail)); err != nil {
		return nil, fmt.Errorf("randomizer: the proof that the state is old cannot be kept: %w", err)
	}
	return because(StateRolledBack, "%s", detail), nil
}

// say says in the role's health whether the state is as new as what it has done.
func (b *rollback) say() {
	if b.c.State != nil {
		b.c.State.Set(b.rolledBack)
	}
	if b.rolledBack != nil {
		b.c.Log.Error().Err(b.rolledBack).Str(outcome.Field, string(StateRolledBack)).
			Str("do", rollbackRemedy).Msg("this host takes no further part in the deployment")
	}
}
