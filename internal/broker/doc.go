// Package broker is the broker's side: a NATS server with JetStream inside this process ([Start]), the configuration
// of a nats-server that runs by itself ([WriteConfig]), and the table of what each role may do there ([Grants]). It
// is the only production package that links nats-server, and only riffle and tests import it: a role connects with
// package bus alone.
//
// # Who may do what
//
// [Grants] is the whole table. It is rendered twice into the server's configuration: as permissions of the role's
// users, and as imports of the role's account. Both are needed. NATS checks the subject of what a client publishes
// but not its reply subject, and the server itself then publishes the answer to whatever the client named as reply.
// In a single account a device that may do no more than read an announcement could ask for one that does not exist
// and have the empty answer sent to $JS.API.STREAM.PURGE.REPORTS, and every report would be gone. So each role has an
// account of its own, and so has each host of devices, without streams, into which only the subjects of the table are
// imported; a reply goes back into the asker's account and can reach nothing that the asker may not reach anyway. The
// tests of package bus try this attack too, also from one host against another's inbox. A host's user may report
// under its own key and no other.
//
// # Not promised
//
// The broker's operator can read every ciphertext that the broker holds, and can withhold any of it.
package broker
