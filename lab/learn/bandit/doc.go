// Package bandit holds the papers' learners that only simulations run, one file for each algorithm. Those of
// deployments are in [github.com/riffle-dp/riffle/pkg/learn/bandit].
package bandit
