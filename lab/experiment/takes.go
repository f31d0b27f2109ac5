package experiment

import "time"

// Takes is about how long an experiment that comes with the program takes on two idle cores, all seeds; 0: not known.
// The times are extrapolated from one seed on one core of an AMD EPYC, at the experiment's people or rows where that
// took less than five minutes, and else from fewer, in proportion: take them for the order of magnitude.
func Takes(name string) time.Duration { return time.Duration(minutes[name]) * time.Minute }

// minutes are those of Takes, rounded up to the next of 1, 3, 5, 10, 20, 40, 60 and 120. That of bakeoff is a guess.
var minutes = map[string]int{
	"ablation": 20, "adult-b7": 3, "adult-block": 3, "anytime": 3, "arena": 20, "b-glincb": 3, "bakeoff": 120,
	"combiner-local": 1, "counts": 5, "dimension-free": 1, "drift": 5, "elimination": 10, "families": 3,
	"figure1-joint": 1, "figure1-local": 3, "fixed-arms": 60, "frontier": 10, "hard-contexts": 3,
	"headline": 10, "kappa": 3, "layered": 1, "layered-bandit": 1, "local-schedules": 5,
	"lower-bound-joint": 1, "paper-epsilon": 1, "proof-constants": 3, "regression-census": 1,
	"regression-hard": 1, "regression-joint": 1, "regression-local": 1, "reweighted": 3, "scaling-epsilon": 5,
	"scaling-people": 40, "server-noise": 20, "sizes": 10, "squarecb": 1, "table1-local": 3, "table2": 1,
	"table2-joint": 3, "trust": 40,
}
