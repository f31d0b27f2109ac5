// Package bus is a role's way to the broker: a client of NATS with JetStream.
//
// Payloads are opaque bytes; all that the bus knows of them is the epoch and round that stand in the subject, or in a
// report's header.
//
// # What lies where
//
//	REPORTS        riffle.v1.report.<host's key>             randomizer -> shuffler, so many of each host at a time
//	MIXED          riffle.v1.mixed.<epoch>.<round>.<index>   shuffler -> analyzer, each chunk stored once
//	MIXED          riffle.v1.manifest.<epoch>.<round>        shuffler -> analyzer, stored once
//	announcements  <epoch>.<round>.<digest> (key-value bucket) analyzer -> everyone, stored once, never changed
//	keys           <role> (key-value bucket)                 shuffler -> everyone, newest counts
//	AUDIT          riffle.v1.audit.<role>.<kind>.<digest>    shuffler, analyzer -> analyzer, auditor; append-only
//	(no stream)    riffle.v1.enrol                           randomizer asks, a shuffler answers
//
// "Stored once" is the broker's doing, not the client's: these streams keep one message per subject and refuse another, refuse rollups
// and deletion of single messages. Even a role with the right to write cannot change what it wrote.
//
// # Who may do what
//
// [Grants] is the whole table. It is rendered twice into the server's configuration: as permissions of the role's users, and as imports
// of the role's account. Both are needed. NATS checks the subject of what a client publishes but not its reply subject, and the server
// itself then publishes the answer to whatever the client named as reply. In a single account a device that may do no more than read an
// announcement could ask for one that does not exist and have the empty answer sent to $JS.API.STREAM.PURGE.REPORTS, and every report
// would be gone. So each role has an account of its own, and so has each host of devices, without streams, into which only the subjects of
// the table are imported; a reply goes back into the asker's account and can reach nothing that the asker may not reach anyway. The tests
// try this attack too, also from one host against another's inbox. A host's user may report under its own key
// and no other.
//
// # What is known after an error
//
// Every method says so. In general: [ErrForbidden], [ErrTooLarge], [ErrBadName], [ErrFull], [ErrRefused] and [ErrExists] mean that nothing
// was stored; [ErrUnknown] means that the broker's answer did not come, so that the payload may or may not be stored, and that repeating
// the same call is safe. Methods retry by themselves for as long as their context lives, but only while there is no answer or one that is
// known to pass; any method can end with ErrRefused after some seconds where the broker says what nobody here knows (see answers.go).
// Whatever is being repeated for long shows in the role's readiness, metrics and log (see [Attach]).
package bus
