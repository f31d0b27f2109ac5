// Package bus is a role's way to the broker: a client of NATS with JetStream ([Connect], [Conn]), a handle for each of
// the streams there ([Streams]), and the streams that [Provision] makes. The server and the table of rights are in
// package broker. The bus imports no other package of Riffle.
//
// A role is given the handles that it needs, and no connection. The handles ask over a [Transport]: that of a Conn is
// the network; the simulation's is memory.
//
// Payloads are opaque bytes; all that the bus knows of them is the epoch and round that the subject has, or a
// report's header.
//
// # What lies where
//
//	REPORTS        riffle.v1.report.<host's key>               randomizer -> shuffler; the number per host is bounded
//	MIXED          riffle.v1.mixed.<epoch>.<round>.<index>     shuffler -> analyzer, each chunk stored once
//	MIXED          riffle.v1.manifest.<epoch>.<round>          shuffler -> analyzer, stored once
//	announcements  <epoch>.<round>.<digest> (key-value bucket) analyzer -> all roles, stored once, never changed
//	keys           <role> (key-value bucket)                   shuffler -> all roles, the newest counts
//	AUDIT          riffle.v1.audit.<role>.<kind>.<digest>      shuffler, analyzer -> analyzer, auditor; append-only
//	(no stream)    riffle.v1.enrol                             randomizer asks, a shuffler answers
//
// "Stored once" is the broker's doing, not the client's: these streams keep one message per subject and refuse
// another, refuse rollups and deletion of single messages. Even a role with the right to write cannot change what it
// wrote.
//
// # What is known after an error
//
// Every method says so. In general: [ErrForbidden], [ErrTooLarge], [ErrBadName], [ErrFull], [ErrRefused] and
// [ErrExists] mean that nothing was stored; [ErrUnknown] means that the broker's answer did not come, so that the
// payload may or may not be stored, and that repeating the same call is safe. Methods retry by themselves for as long
// as their context lives, but only while there is no answer, or one that is known to pass; any method can end with
// ErrRefused after some seconds if the broker gives an answer that is not known here (see errors.go). A call that is
// repeated for long shows in the role's readiness, metrics and log (see [Conn.Monitor]).
//
// # Not promised
//
// The bus neither encrypts nor signs, and does not check what it carries. The order of reports and the times at which
// they arrive are visible to the broker.
package bus
