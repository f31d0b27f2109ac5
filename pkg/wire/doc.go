// Package wire turns what Riffle's roles exchange into bytes and back. It is the one place where bytes that another
// process wrote are decoded and checked: what it returns was decoded strictly, has the signature of the expected
// signer, and is in range field by field.
//
// # Statements
//
// A statement is a plain Go struct: plan.Announcement, or one of this package (KeySet, Manifest, Counts, Credential,
// EnrolRequest, EnrolReply). It travels as riffle.v1 Signed. Sign checks, converts and signs a statement; Open
// verifies, converts and checks one. One list of fields for each message is what reads and writes it (fields.go); what
// is generated from the schema is for tests, which hold the lists to it. Enrolment has openers of its own
// (OpenCredential, OpenEnrolRequest, OpenEnrolReply), because the key that must have signed depends on what is inside.
//
// Every statement has one encoding: the deterministic protobuf serialization of its message. Open refuses bytes that
// differ from what Sign makes of the result: a repeated scalar, a default value that is written out, a field or an
// enum value that the schema does not know, an empty message in place of an absent one. So no field is lost on the
// way, and a digest names a statement and not one of several ways to write it. Empty and nil slices are the same
// statement; Open returns nil. Zeros keep their sign.
//
// # Reports, envelopes, chunks
//
// BuildReport and ParseReport, SealReport and OpenEnvelope, BuildChunk and ParseChunk. Under a given plan all reports
// have the same length, and so have all envelopes.
//
// # What is checked where
//
// This package checks a statement by itself: sizes, ranges, relations between its fields, its signature. Whether it
// fits the state of a role (the open epoch, the admitted digest, the slot's device) is for the role to check. A plan
// that passes here is well formed and not necessarily private: each device computes the guarantee of the plan itself.
//
// # Errors
//
// A *FieldError names a field that is out of range. ErrMalformed, ErrTooLarge, ErrSize, ErrSigner, ErrSignature,
// ErrCredential and ErrDeployment are the other reasons. Reason gives the riffle.v1 Refusal that a role answers,
// counts and logs. No error holds a payload.
package wire
