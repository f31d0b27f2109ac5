// Package glm holds the learning and the deciding of Riffle: reward families, the statistics that devices report of
// their records, the learner that turns released sums into the next policy, and the decision of a device with a policy.
//
// It follows Riffle's seed paper, "Shuffle and Joint Differential Privacy for Generalized Linear Contextual Bandits"
// (arXiv 2602.00417v2), which other comments call "the paper". The paper profile is its Algorithm 1. The practical
// profile, the default, is Riffle's own: the same devices, with one report per person and a noise-aware Newton step per
// cohort. Of Algorithm 2 (joint differential privacy) only what a device does is here; the curator's side is package
// learn/joint. Algorithms 4 to 6 are package protocol, Algorithm 7 is package convex.
//
// Reward families: a log-partition m, the mean reward mu = m' and its derivatives, on bounded rewards
//
//	family.go                  the interface, and the loss of one record
//	family_logistic.go, family_probit.go, family_poisson.go, family_gaussian.go
//	maximum.go                 an upper bound of a function's maximum, for those bounds
//
// Statistics: the vector that a device reports of its record, and the sensitivity of a sum of such vectors
//
//	record.go, unit_ball.go    a record, and its clipping
//	statistic.go               Gradient, Hessian and Covariance; Row, the record itself
//	triangle.go                a symmetric matrix as a vector
//	statistic_bounds.go        ranges of coordinates and diameters; their proofs are in statistic_gradient.go,
//	                           statistic_hessian.go and statistic_angles.go
//	enclosing_ball.go          the smallest ball that holds every gradient
//	joint_spread.go            the sensitivity of a gradient and an outer product together
//
// Deciding: what a device does with a policy
//
//	policy.go                  the policy, its confidence sets and its validation; equations (10)-(13)
//	decide.go                  Algorithm 1, lines 3 and 11-21: elimination, scaling, draw
//	choice.go                  default arm, exclusions, control group and caution around it
//	decide_optimistic.go       Algorithm 2, lines 4-5 and 13-15
//	probabilities.go           the probability of every arm, for evaluation
//	design.go, design_rank.go  the G-optimal design of Lemma 4.3, by Frank-Wolfe with away steps
//	symmetric.go               the matrices of a policy, and their inverses
//
// Learning: from released sums to the next policy
//
//	config.go                  the configuration; its profiles are in config_paper.go and config_practical.go, and
//	                           config_lasting.go checks what is for deployments that last
//	learner.go                 the state machine of both profiles
//	learner_paper.go           Algorithm 1, analyzer's side: batches of one covariance and several gradient releases
//	confidence.go              its widths and ridges; equations (8), (9), (20)-(26)
//	schedule.go                its batch sizes, equation (7), and the practical profile's cohorts
//	learner_practical.go       the practical profile: one Newton step per cohort, pooled by precision
//	exploration.go             how much each of its cohorts explores
//	learner_lasting.go         one policy back, and to a stop
//	change.go                  the test whether the world has changed
//	lift.go                    whether the policy helps: its lift over the control group, with an interval
//	environment.go             synthetic populations, for tests and examples
//
// # Guarantees
//
// Everything is a pure function or a state machine: there is no clock, no file and no network, and random words come
// from a Source that the caller passes. The same calls give the same policies to the last bit on one architecture.
//
// For every record, clipped as Statistic.Vector clips it, the vector lies in Statistic.Bounds; every bound is proved in
// the comment of its function, error margins included. A policy is a function of the configuration and of released sums
// only, so it is as private as these sums. A refused call changes nothing, and a policy that Validate accepts can be
// followed without a panic, whatever arms come.
//
// The package adds no noise and certifies no privacy: packages protocol and privacy do. With ProofConstants the
// confidence sets hold the true parameter with the stated probability if rewards follow the family and no cohort's arms
// depend on its rewards; with tuned constants and in the practical profile utility is measured, not proved. Nothing is
// guaranteed about regret where rewards do not follow the family.
package glm
