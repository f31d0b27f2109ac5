package glm

// Profile names a set of formulas; the two are never mixed.
type Profile string

const (
	// Practical is the default: one report per device, Newton-type estimation, pooling over cohorts. Its utility is
	// measured, not proved; its privacy has the same certificate.
	Practical Profile = "practical"
	// Paper is Algorithm 1 of Riffle's seed paper as written: a weighted covariance release and several gradient rounds
	// per cohort.
	Paper Profile = "paper"
	// Joint is Algorithm 2 of the seed paper, for a trusted curator who reads records: package learn/joint, whose
	// policies devices follow. A Config cannot name it.
	Joint Profile = "joint"
)

// MaxDimension bounds d: a policy of this dimension is about a megabyte of JSON per stage, and a report has d(d+1)/2+d
// coordinates.
const MaxDimension = 512
