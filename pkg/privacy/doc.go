// Package privacy holds the accountant of the binomial vector summation protocol (package protocol): a rigorous, cheap
// upper bound on what a release reveals about one record, and the ledger of what one person has spent. Package
// calibrate finds encodings within a budget.
//
// A release sums encoded vectors. Every device sends, per coordinate, its value rounded at random to an integer number
// of one bits, plus noise bits; the analyzer, which receives the mixed bits, sees the count of ones per coordinate.
// Certify bounds the distance between the laws of that view under two records by that of a Gaussian whose mean moves by
// Mu standard deviations, after giving up an event of probability TailDelta. Such guarantees compose by adding squares
// of Mu and adding TailDelta, so a budget (epsilon, delta) is one number, MuFor, and nothing is lost to composition
// theorems. A Guarantee also counts pure epsilons and zCDP, of releases with other noise.
//
//	certificate.go, line.go, envelope.go, allocation.go   Certify: the bound for one release
//	joint.go                                              CertifyJoint: releases of one record together
//	gaussian.go, spell.go                                 Guarantee: composition, epsilon and delta
//	zcdp.go                                               RhoFor, DeltaOfRho: budgets for discrete Gaussian noise
//	vector.go, scale.go                                   what releases of a vector are certified as; the largest
//	                                                      scale
//	ledger.go, ledger_explain.go                          Ledger: what one person has promised and spent
//	panel.go                                              PanelTail: how many of a panel are dishonest
//	binomial.go, normal.go                                the laws behind the bound
//	dominating.go                                         DominatingLosses: guarantees in the form that others compose
//	renyi.go, lossdistribution.go                         cross-checks
//
// # What the package guarantees
//
// The bound holds for every offset, direction and real-valued shift, and for any behaviour of the other devices.
// Guarantees are rounded up and budgets down; NaN promises nothing, and an error comes with NoGuarantee. The tests
// compare the bound with exact enumeration, and break each of its steps to see that the comparison fails.
//
// # What the package does not guarantee
//
// The bound does not hold when
//   - fewer honest noise bits than Release.Noise are in the counts, or they are not independent and exact,
//   - the number of messages, the cohort or the time of a report depends on the record,
//   - one record moves the encoded vector by more than Release.Shift, for example through a second copy of its report,
//   - mixing fails, so that an observer learns which bits came from one device.
//
// It protects one record against the view of one release, or of the releases that are composed; it says nothing about a
// person with more records than the ledger counts. Where cohorts are panels a record is everything that a person did in
// an epoch, and the ledger counts epochs. Renyi and LossDistribution are cross-checks and points of comparison; no
// guarantee relies on them.
//
// The package does no I/O, draws no random numbers and keeps no state.
package privacy
