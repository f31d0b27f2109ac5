package wire

import (
	"fmt"

	"github.com/riffle-dp/riffle/pkg/seal"
)

// The kinds under which a role's words are in the audit stream. The kind is a part of the subject, which anyone with
// the role's broker credential chooses: Leaf says whether it is true.
const (
	KindConfiguration = "configuration"
	KindAnnouncement  = "announcement"
	KindManifest      = "manifest"
	KindCounts        = "counts"
	KindLearned       = "learned"
	KindPool          = "pool" // of the shuffler
	KindDraw          = "draw" // of the analyzer
	// KindCheckpoint is that of the checkpoints of the role's transparency log, which are no statements and no leaves.
	KindCheckpoint = "checkpoint"
)

// AcceptedKind is the kind under which the analyzer's Accepted of a round is, so that the shuffler finds all of
// them.
func AcceptedKind(epoch uint64, round uint32) string {
	return fmt.Sprintf("accepted-%d-%d", epoch, round)
}

// SummedKind is the kind under which the shuffler's Summed of a round is, so that it finds all of them.
func SummedKind(epoch uint64, round uint32) string { return fmt.Sprintf("summed-%d-%d", epoch, round) }

// leaves are the kinds whose name says no more than what was signed.
var leaves = map[string]seal.Kind{
	KindConfiguration: seal.Configuration, KindAnnouncement: seal.Announcement, KindManifest: seal.Manifest,
	KindCounts: seal.Counts, KindLearned: seal.Learned, KindPool: seal.Pool, KindDraw: seal.Draw,
}

// Leaf reports whether what is under a kind in a role's part of the audit stream is a leaf of the role's
// transparency log: a statement that the role signed, under the kind that belongs to it and no other. So a copy under
// another kind is no second leaf, and a statement occurs once. What is no leaf is skipped: any holder of the role's
// broker credential can have put it there.
//
// Of most kinds only the signature decides: a statement stays a leaf whatever a later version makes of its content.
func Leaf(kind string, signed []byte, by Party) bool {
	if domain, ok := leaves[kind]; ok {
		outer, err := openSigned(signed, MaxStatement)
		return err == nil && len(by.Key) == keySize && string(outer.Key) == string(by.Key) &&
			seal.Verify(domain, outer.Body, outer.Key, outer.Signature) == nil
	}
	if a, _, err := Open[Accepted](signed, by); err == nil {
		return kind == AcceptedKind(a.Epoch, a.Round)
	}
	s, _, err := Open[Summed](signed, by)
	return err == nil && kind == SummedKind(s.Epoch, s.Round)
}
