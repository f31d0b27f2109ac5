// Package glm holds what a device and an analyzer agree on: the policy, and how a device decides with it. Around it are
// the rooms of the learning: what rewards are like, what devices report, and how released sums become the next policy.
//
// It follows Riffle's seed paper, "Shuffle and Joint Differential Privacy for Generalized Linear Contextual Bandits"
// (arXiv 2602.00417v2), which other comments call "the paper". The paper profile is its Algorithm 1. The practical
// profile, the default, is Riffle's own: the same devices, with one report per person and a noise-aware Newton step per
// cohort. Of Algorithm 2 (joint differential privacy) only what a device does is here; the curator's side is package
// learn/joint. Algorithms 4 to 6 are package protocol, Algorithm 7 is package convex.
//
// Imports run down this list:
//
//	learner      from released sums to the next policy: both profiles behind one state machine, their configuration,
//	             confidence sets, exploration and schedules; whether the policy helps (Lift)
//	glm          the policy, and what a device does with it
//	design       the G-optimal design of an arm set
//	statistic    the vector that a device reports of a record, and what one record can move
//	family       how rewards depend on the score
//	structure    which coordinates of an arm can be other than 0 together
//	symmetric    symmetric matrices as vectors
//
// A device needs glm and statistic; whoever runs a deployment needs learner, too. A new reward family is a file of
// package family and a line in its New; a new structure of what is reported is a file of package statistic; a new
// learner implements the interface run of package learner.
//
// In this package:
//
//	policy.go, profile.go      the policy, its confidence sets and its validation; equations (10)-(13)
//	eliminate.go               Algorithm 1, lines 11-17: the arms that the confidence sets leave
//	decide_optimistic.go       Algorithm 2, lines 4-5 and 13-15
//	choice.go                  default arm and exclusions
//	lottery.go                 Algorithm 1, lines 18-21: scaling, design, caution, draw
//	decide.go                  a device's decision, control group included
//	probabilities.go           the probability of every arm, for evaluation
//
// # Guarantees
//
// Everything in these packages is a pure function or a state machine: there is no clock, no file and no network, and
// random words come from a source that the caller passes. The same calls give the same policies to the last bit on one
// architecture.
//
// A policy is a function of the configuration and of released sums only, so it is as private as these sums. A policy
// that Validate accepts can be followed without a panic, whatever arms come. Nothing is guaranteed about regret where
// rewards do not follow the family.
package glm
