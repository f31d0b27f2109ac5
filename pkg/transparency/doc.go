// Package transparency is the format of the transparency logs: what a role signs of the list of its statements, so that
// nobody, not even the role, can later change, drop or reorder one unnoticed.
//
// A log is a Merkle tree with the hashing of RFC 6962. Its leaves are the exact bytes of the role's signed statements
// in the order in which the role appended them. A checkpoint states the size and the root of the tree in the format of
// C2SP tlog-checkpoint: a signed note (C2SP signed-note). A witness that has seen a log grow from one checkpoint to the
// next co-signs the later one (C2SP tlog-cosignature, version 1). Whoever holds a checkpoint can check that a statement
// is in the log (Prove, CheckInclusion), and that a longer log extends it (Tree).
//
// A checkpoint alone does not show that everyone sees the same log: a role could sign two. That shows only when people
// compare what they see, as witnesses do for them.
//
// Everything here is pure. It reads no file and no clock; signatures are deterministic.
package transparency
