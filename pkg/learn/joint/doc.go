// Package joint is Algorithm 2 of "Shuffle and joint differential privacy for generalized linear contextual bandits": a
// generalized linear bandit for contexts that an adversary may choose, with a trusted curator who reads every record
// and adds the noise to all that leaves. The guarantee is joint: what the others' decisions show of one person's
// record.
//
//	tree.go      the binary tree mechanism, whose noised nodes are what leaves
//	gradient.go  noisy full-batch projected gradient descent (Lemma U.4)
//	config.go    what is fixed beforehand: budget, noise, and the constants that work; the guarantee
//	proof.go     the constants of the regret proof
//	literal.go   the constants of the paper's experiments, without a sound accounting
//	release.go   what leaves after a micro-batch, as whole numbers
//	state.go     what everyone knows: matrices, switches (Criterion II), estimates, and the policy made of them
//	curator.go   what only the curator knows
//	learner.go   the algorithm as a learner of package learn
//
// What a device does with the policy (Criterion I, elimination, optimism) is glm.PlayOptimistic.
package joint
