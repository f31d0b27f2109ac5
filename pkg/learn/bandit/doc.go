// Package bandit holds the bandits of papers that deployments run as well as simulations: programs (learn.Program)
// whose policies and statistics are data. One file for each algorithm; those that only simulations run are in
// lab/learn/bandit.
package bandit
