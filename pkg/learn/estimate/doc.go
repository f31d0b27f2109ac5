// Package estimate holds the private regressions of the papers, one file for each algorithm. Each learns a learn.Model
// from the answers to its questions.
//
// "Near-optimal private learning in linear contextual bandits" (all ask for sums; variants and options in the files):
//
//	L1, WarmL1         Algorithms 2 and 8, any family     l1.go; parts normalization.go (1, 9), reweighted.go (7, 10)
//	L1 variant "fast"  with the schedule of Prop. C.5     fast.go
//	ReweightedLinear   Algorithm 12, linear family        reweighted_linear.go
package estimate
