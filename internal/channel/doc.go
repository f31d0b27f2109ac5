// Package channel declares what differs between the ways in which a cohort's sum reaches the analyzer. A channel has
// two sides on the servers, and each is one interface: Mixing is the side of the shuffler process, which takes devices'
// reports in and lets a release out; Counting is the side of the analyzer, which turns what left into counts. The
// device's side is in pkg/channel.
//
// The roles know the rest and nothing of the channel: enrolment, time, null records, membership, manifests, journal,
// history and outages belong to the shuffler, and the ledger, the learner, counts and announcements to the analyzer.
//
// # What every mixing side guarantees
//
//   - Nothing leaves before the commit. Only Release sends, and the shuffler calls it only for a release whose members
//     are durable in its journal, and are at least the minimum.
//   - Every retry sends the same bytes. Whatever Release draws or computes that a later attempt could not repeat, such
//     as an order or server noise, is durable before the first byte that depends on it leaves. Noise that no one has
//     seen may be drawn again.
//   - What would undo the protection is never stored: no permutation, no noise beside the sum that it hides, no report
//     beside its sender. What is stored is what leaves.
//   - What leaves is bound to the release by the manifest, which Release completes and the shuffler signs, logs and
//     sends last.
//   - What was stored for the release is forgotten when its manifest is out.
//   - Number and length of everything that is stored or sent depend on the plan and on the number of members alone.
//
// A channel guarantees nothing about who takes part: it sees slots and digests of reports, and refuses copies
// (Repeated), which would multiply one person's part. It does not guarantee that the sum is right if its own process is
// malicious.
//
// What every counting side guarantees stands at Counting.
//
// # Channels that exchange several messages
//
// Release may take as long as it needs and talk to the analyzer meanwhile, over a broker interface that its channel
// declares; its messages need subjects and rights of their own in internal/bus and internal/broker. A channel of secret
// shares keeps a journal of its own on the Disk that it is given, writes each of its messages there before it sends it,
// and repeats them from there. If the analyzer's accepted set turns out to be too small, Release returns ErrImpossible
// before the aggregate share leaves.
//
// A channel whose payload is one sealed box has a Layout of one message, with the length of the box in a new field, and
// releases the boxes as shuffle releases bit messages: permuted, stored, and sent in chunks that the manifest names.
//
// # Where to add a channel
//
//   - pkg/channel/<name>: the device's side, vectors to payload, and the pure part of counting.
//   - internal/channel/<name>/mix.go and count.go: the two sides of the servers.
//   - Layout: new fields, where the number of messages does not fix a report's length.
//   - pkg/wire: BuildReport, ParseReport, EnvelopeSize, BuildChunk and ParseChunk take payloads of whole bit messages
//     (seal.BitSize) only. Another payload needs them to take its length in bytes.
//   - pkg/plan: what an announcement says of the channel, and which noise its guarantee counts. pkg/wire converts it.
//   - The lines where a channel is picked: the table of channels and the name in pkg/device/core.go, shuffler.New and
//     Config.counting in internal/analyzer/broker.go. The account's item (internal/shuffler/settings.go), the reasons
//     (Reasons in internal/analyzer/count.go) and what of the broker the channel needs (the Broker interfaces of the
//     roles) stand beside them.
//   - docs/architecture.md: a line for each new package.
//
// # What the interfaces do not carry yet
//
// A payload is made of vectors alone: pkg/channel.Device is not told the device's number, its host's identity and
// credential, or what the enrolment reply said, and keeps nothing. The enrolment reply has no part that is a channel's.
// The analyzer has no Disk. Mixing.Layout cannot refuse an announcement. The counts name as many reports as the
// manifest: Count cannot accept fewer.
package channel
