package glm

import "slices"

// Profile names a learner: a set of formulas. Those of two are never mixed.
type Profile string

const (
	// Practical is the default: one report per device, Newton-type estimation, pooling over cohorts. Its utility is
	// measured, not proved; its privacy has the same certificate.
	Practical Profile = "practical"
	// Paper is Algorithm 1 of Riffle's seed paper as written: a weighted covariance release and several gradient rounds
	// per cohort.
	Paper Profile = "paper"
	// Joint is Algorithm 2 of the seed paper, for a trusted curator who reads records: package learn/joint, whose
	// policies devices follow. A Config cannot name it.
	Joint Profile = "joint"

	// What follows are programs: learners of other papers, for rewards that are linear in the arm (package
	// learn/program). A cohort of them answers one question, in one round.

	// LinUCB plays the arm with the largest upper confidence bound, from sums of second moments.
	LinUCB Profile = "linucb"
	// OnlineLinUCB is Online LinUCB, from each person's own noisy report.
	OnlineLinUCB Profile = "online-linucb"
	// OnlineLinUCBCombiner combines several of them.
	OnlineLinUCBCombiner Profile = "online-linucb-combiner"
	// EliminationReweighted is action elimination with L1 regression.
	EliminationReweighted Profile = "elimination-reweighted"
	// EliminationLinear is action elimination with reweighted linear regression.
	EliminationLinear Profile = "elimination-linear"
	// SquareCB is inverse gap weighting on improper regression.
	SquareCB Profile = "squarecb"
	// RegCB is elimination with layered regression.
	RegCB Profile = "regcb"
)

// Profiles are all profiles.
func Profiles() []Profile { return append([]Profile{Practical, Paper, Joint}, Programs()...) }

// Programs are the profiles that are programs.
func Programs() []Profile {
	return []Profile{LinUCB, OnlineLinUCB, OnlineLinUCBCombiner, EliminationReweighted, EliminationLinear, SquareCB,
		RegCB}
}

// Program reports whether the profile is a program.
func (p Profile) Program() bool { return slices.Contains(Programs(), p) }

// MaxDimension bounds d: a policy of this dimension is about a megabyte of JSON per stage, and a report has d(d+1)/2+d
// coordinates.
const MaxDimension = 512
