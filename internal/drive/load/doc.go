// Package load plays people against a running deployment: thousands of synthetic users from one process. They ask for
// decisions through the API that an app would use and tell their rewards. In stated shares they drop out, repeat
// themselves, tell their rewards too late and send malformed requests.
//
// It measures throughput and latency, and it checks the answer. Because it plays the people, it knows every record that
// a device holds. With an auditor's key it reads the signed announcements, manifests and counts, decodes every released
// sum with the announced encoding and compares it with the true sum. The error of a coordinate is noise and rounding of
// known variance, so a release whose error is larger or smaller than that explains is found: see [Release].
//
// # What cannot be known
//
// Which reports are in a release is recorded nowhere; only their number is. A release is therefore compared only where
// everyone who enrolled also reported, no one but this process's people took part, and no answer of a randomizer was
// lost on the way. Otherwise it is reported as not comparable, with the reason.
//
// Privacy itself bounds from below the size of an error that is noticed. The comparison finds missing noise, a wrong
// bias, scale or offset, sums of the wrong statistic, and the loss of a large part of a cohort. A single record that is
// lost or counted twice changes a sum by less than its noise. Lost and doubled reports show in the numbers of reports
// and messages, and in the accounts that every role keeps.
package load
