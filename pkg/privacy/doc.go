// Package privacy holds the accountant of the binomial vector summation protocol: a rigorous, cheap upper bound on what
// a release reveals about one record, and the arithmetic of budgets.
//
// A release sums encoded vectors. Every device sends, per coordinate, its value rounded at random to an integer number
// of one bits, plus noise bits; the view of whoever receives the mixed bits is the count of ones per coordinate.
// Certify bounds the distance between the laws of that view under two records by that of a Gaussian whose mean moves by
// Mu standard deviations, after giving up an event of probability TailDelta. Such guarantees compose by adding squares
// of Mu and adding TailDelta, so a budget (epsilon, delta) is one number, MuFor, and nothing is lost to composition
// theorems.
//
// The bound holds for every offset, direction and real-valued shift, and for any behaviour of the other devices. It
// does not hold when
//   - fewer honest noise bits than Release.Noise are in the counts, or they are not independent and exact,
//   - the number of messages, the cohort or the time of a report depends on the record,
//   - one record moves the encoded vector by more than Release.Shift, for example through a second copy of its report,
//   - mixing fails: someone sees which bits came from one device.
//
// The other bounds in this package, Renyi, CPSGD, the advanced composition of the seed paper and LossDistribution, are
// cross-checks and points of comparison; nothing relies on them.
package privacy
