// Package shares is the channel in which two servers add secret shares: a device splits the entries of all its vectors
// into one share for the shuffler and one for the analyzer, with a proof that each entry is in its range (Prio3SumVec).
// Each server adds its shares over the same set of reports, and the two sums together are the sums of the entries. This
// package holds what each of the three parties computes. It is pure but for the randomness of sharing and sealing,
// which comes from crypto/rand through pkg/seal.
//
// # The way of a report
//
//	device    Device.Append    entries with noise -> nonce | public share | leader's share | envelope
//	shuffler  Leader.Prepare   payload            -> prepare message for the analyzer, and a Pending share
//	analyzer  Helper.Verify    prepare message    -> who took part, the answer, and a Verified share; or a refusal
//	analyzer  Helper.Add       Verified           -> HelperSum
//	shuffler  Leader.Finish    answer             -> LeaderSum
//	shuffler  LeaderSum.Noise                     -> NoisedShare, the one form of a sum that has bytes
//	analyzer  HelperSum.Counts NoisedShare        -> counts, which exist with all noise only
//
// A prepare message is what draft-ietf-ppm-dap calls PrepareInit: the analyzer's part of a report, and the shuffler's
// preparation share. The answer is what VDAF calls the preparation message: both preparation shares combined.
//
// # What it guarantees
//
// One server alone learns nothing of any report but what the noised sums tell, even if it does not follow the protocol.
// The shuffler's view is uniformly random shares and the analyzer's verdicts; the analyzer's is a seed for each report,
// one zero-knowledge preparation share of the shuffler's, and the shuffler's noised share of the sums. This rests on
// "Verifiable Distributed Aggregation Functions" (Davis, Patton, Rosulek, Schoppmann, 2023), on circl 1.6.5, which
// computes wire version 12 of draft-irtf-cfrg-vdaf, and on these rules:
//
//   - A report is never prepared under two verification keys. Two preparation shares of one report under two keys give
//     the analyzer every bit of it, in milliseconds. The keys of an epoch follow from the shuffler's identity (Secret);
//     devices bind their shares to the commitment to the epoch's secret, to the announcement and to the round, so that
//     no share fits under any other key.
//   - The analyzer's preparation share never leaves it: it is used inside Helper.Verify and has no bytes.
//   - The envelope is sealed to the analyzer and bound to the nonce, the public share, the whole of the leader's share
//     and the commitment. So nobody can put the parts of two reports together.
//   - The hash of the leader's share covers its blind. The analyzer can compute what the leader's share of guessed
//     entries would be, and would confirm a guess by a hash without the blind.
//   - The envelope holds a proof of participation, which the analyzer checks itself: the shuffler can leave devices
//     out, but cannot invent one or count one twice. The caller remembers participants and nonces.
//   - A sum of the shuffler's leaves with the noise that the plan names, or not at all.
//   - What one process of a server prepared or verified is handed over only to another process of the same server,
//     sealed (AppendPending, AppendVerified): it is that server's own share of one report.
//
// # What it does not guarantee
//
// Two servers that work together open every report; what protects then is the noise of the device itself. Each server
// can leave reports out, down to the other's minimum; the guarantee is made for the minimum. A dishonest shuffler can
// shift the sums by anything in range: only the analyzer verifies proofs, and the shuffler's share of the sums is taken
// as it is. A dishonest analyzer can announce any counts. A dishonest device can report any entry of the width, which
// is that of the largest coordinate. The analyzer learns which devices took part; the shuffler and the broker know that
// anyway.
//
// # Concurrency
//
// Round, Device and Secret are safe for concurrent use. Leader, Helper and the sums are used by one goroutine at a
// time: a vector sum of circl keeps the state of its hash. Give each goroutine its own and merge the sums.
package shares
