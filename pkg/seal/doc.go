// Package seal holds the cryptography of Riffle. It keeps the content of a bit message from all but the analyzer and
// the content of a report from all but the shuffler, and it lets only its author make a statement.
//
// # Bit messages
//
// BitSealer and BitOpener encrypt one bit at a time with HPKE in base mode (RFC 9180): DHKEM(X25519, HKDF-SHA256),
// HKDF-SHA256, ChaCha20-Poly1305, the first message of a context that is then dropped. Every bit message is BitSize
// bytes long: an encapsulated key (32), a label (3: release, coordinate in two bytes big endian), the bit (1), a tag
// (16). The label is in the clear and is associated data, so that it cannot be changed; the ciphertext is the bit
// alone. The info string is a fixed domain followed by the digest of the round's announcement, so that a message sealed
// for one round opens in no other. Two messages share nothing that an outsider can link: each has its own ephemeral
// key, and the label says nothing but a place in the plan. Sealing and opening them allocates nothing.
//
// The steps of RFC 9180 between the curve, the hash and the cipher are here (hpke.go); those three are libraries'.
// The tests compare with the RFC's vectors and with circl's HPKE, both ways.
//
// # Sealed envelopes
//
// EnvelopeSealer and EnvelopeOpener encrypt content of any length in the same way, mostly to the analyzer, under an
// info string that names what the envelope is for (EnvelopeDomain) and the same digest, and with associated data. Such
// an envelope does not name its receiver. The one around a report does (Envelope), and has a domain of its own.
//
// # Reports
//
// SealReport and ReportOpener wrap, for the shuffler, what one device sends in one round, in the same HPKE suite.
// Associated data binds the envelope to deployment, epoch and round (ReportContext).
//
// # Requests for enrolment
//
// SealRequest and RequestOpener do so with what a host asks of the shuffler, under an info string of their own that
// names the deployment. Both sides export the secret of a ReplyKey from the HPKE context (RFC 9180, section 5.3), under
// which the replies travel as responses do in RFC 9458 (section 4.4).
//
// # Statements
//
// Sign, Verify and Digest are Ed25519 and SHA-256 over a domain string, which names the kind of the statement, followed
// by its body. A signature of one kind verifies as no other. SignText signs text in formats that others defined, and
// nothing that could be a statement.
//
// # What this package does not promise
//
// HPKE in base mode does not authenticate the sender: a bit message can come from anyone who knows the analyzer's
// public key and the announcement. The report's signature, which the shuffler checks, decides who may send. There is no
// forward secrecy towards the receiver: a private HPKE key opens everything that was ever sealed to it, so rotate the
// keys. Nothing here detects copies of a message. Lengths are not hidden. Private keys are not wiped from memory; what
// one message was sealed or opened with is, as far as a program in Go knows where that was.
//
// All randomness comes from crypto/rand; there is no way to inject another source. Nothing here reads files, the clock
// or the network. All types are safe for concurrent use once made.
package seal
