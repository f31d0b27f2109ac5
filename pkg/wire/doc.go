// Package wire turns what Riffle's roles exchange into bytes and back. It is the one place where bytes from elsewhere
// are decoded and checked: what it returns is decoded strictly, signed by who it must be signed by, and in range field
// by field.
//
// # Statements
//
// A statement is a plain Go struct: plan.Announcement, or one of this package (KeySet, Manifest, Counts, Credential,
// EnrolRequest, EnrolReply). It travels as riffle.v1 Signed. Sign checks, converts and signs a statement; Open
// verifies, checks and converts one. The generated protobuf types stay inside this package. Enrolment has openers of
// its own (OpenEnrolRequest, OpenEnrolReply), because the key that must have signed depends on what is inside.
//
// Every message has one encoding: the deterministic protobuf serialization without unknown fields. Anything else, such
// as a repeated scalar, a default value written out or a field that the schema does not know, is refused, so that a
// digest names a content and not one of several ways to write it.
//
// # Reports, envelopes, chunks
//
// BuildReport and ParseReport, SealReport and OpenEnvelope, BuildChunk and ParseChunk. For a given plan all reports,
// and all envelopes, are equally long.
//
// # What is checked where
//
// This package checks a message by itself: sizes, ranges, relations between its fields, its signature. Whether it fits
// the state of a role (the epoch that is open, the digest that is admitted, the slot's device) is the role's to check.
// So is privacy: a plan that passes here is well formed, not private. Devices compute its guarantee themselves.
//
// # Errors
//
// A *FieldError names a field out of range; ErrMalformed, ErrTooLarge, ErrSize, ErrSigner, ErrSignature, ErrCredential,
// ErrDeployment the rest. Reason gives the riffle.v1 Refusal that a role answers, counts and logs. No error holds a
// payload.
package wire
