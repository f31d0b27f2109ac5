// Package bandit holds the learners of the papers, one file for each algorithm: what to ask (an estimator of package
// estimate), and how to decide meanwhile (package play). To add one, add a file here.
package bandit
