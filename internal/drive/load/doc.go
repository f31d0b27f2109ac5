// Package load plays people against a running deployment: thousands of synthetic users from one process, who ask for
// decisions through the API that an app would use, tell their rewards, drop out, repeat themselves, come late and send
// nonsense, in stated shares.
//
// It measures throughput and latency, and it checks the answer. Because it is the people, it knows every record that a
// device holds; with an auditor's key it reads the signed announcements, manifests and counts, decodes every released
// sum with the announced encoding and compares it with the true sum. The error of a coordinate is known to be noise and
// rounding of known variance, so a release whose error is larger, or smaller, than that is found: see [Release].
//
// # What cannot be known
//
// Which reports are in a release is nobody's business and stands nowhere; only their number does. A release is
// therefore compared only where everybody who enrolled also reported, nobody but this process's people took part, and
// no answer of a randomizer was lost on the way. Otherwise it is reported as not comparable, with the reason.
//
// The size of an error that goes unnoticed is bounded from below by privacy itself. The comparison finds missing noise,
// a wrong bias, scale or offset, sums of the wrong thing, and losses that are a good part of a cohort; a single record
// that is lost or counted twice changes a sum by less than its noise. Lost and doubled reports show in the numbers of
// reports and messages, and in the accounts that every role keeps.
package load
