// Package client is the Go client of a randomizer's local HTTP API: an app asks it for decisions, tells it rewards, and
// reads a device's ledger and the randomizer's status.
//
// # Guarantees
//
// Decide and Reward are repeated while the randomizer cannot be reached or answers that it is unavailable, for instance
// while it restarts or before the first policy is announced. Repeating is safe: a device is enrolled at most once
// however often it asks, and the same reward may be told again. It has a cost: a decision whose answer was lost is made
// again without its token, so the device reports the null record (see [Calls.Unsure]).
//
// Every refusal is a [*Refusal]. [errors.Is] compares it with a [Reason], and a call that got no answer with
// [ErrUnreachable].
//
// The package has its own types. It imports nothing else of this module, so an app that uses it links no broker and no
// database. A test of the randomizer holds these types to what the randomizer sends.
//
// # What it does not do
//
// Over http the client does not encrypt, so a token that it shows is seen on the way: use http on one machine only, or
// to a proxy that encrypts.
package client
