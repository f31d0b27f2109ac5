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
//     as an order, a sealed message or server noise, is durable before the first byte that depends on it leaves. Noise
//     that no one has seen may be drawn again. Where several processes mix (package shuffle, Exchange), the order
//     becomes durable at the broker, chunk by chunk, as it leaves: a retry takes over what is there and draws the
//     rest anew, which changes nothing of what the order is a function of, see Mixer.mix.
//   - What would undo the protection is never stored where it outlives the process or where anyone else can read it: no
//     permutation, no noise beside the sum that it hides, no report beside its sender. What is stored is what leaves.
//     What does not fit into memory on its way there (reports as they were admitted, messages in their buckets) is
//     in a file that is sealed with a key which only the process has, in memory, and which goes with it (package
//     spill). What several processes exchange is sealed at the broker under a secret of the release. The lead's disk
//     has it until all has left, sealed with a key that opens the reports as well.
//   - What leaves is bound to the release by the manifest, which Release completes and the shuffler signs, logs and
//     sends last.
//   - What was stored for the release is forgotten when its manifest is out.
//   - Number and length of everything that is stored or sent depend on the plan, on the number of members, and on which
//     reports the two servers refused. An honest device's report is refused for no reason that depends on its record.
//     Where several processes mix, they also depend on how many messages each bucket has: a draw of its own.
//
// A channel is told who takes part as slots and digests of reports. Repeated refuses what would multiply one person's
// part, as far as the mixing side can see it. A channel does not guarantee that the sum is right if its own process is
// malicious.
//
// What every counting side guarantees is said at Counting.
//
// # What passes between the sides
//
//   - Layout says how long a round's reports are. It may refuse an announcement that the channel cannot carry.
//   - Commitment goes into every reply to an enrolment, and the device keeps it with its slot. A channel whose devices
//     must bind their reports to something that the shuffler fixed before the epoch (shares: the secret of its
//     verification keys) puts it there. It must be a function of the shuffler's identity and the epoch's first
//     announcement, so that no restart and no restored folder changes it.
//   - Release.Announced and Release.First are the announcement of the round, and the digest of the epoch's first one.
//   - Release returns the members that are not part of what left. The shuffler takes them out of the manifest and of
//     the count, after the commit and with a reason each, and destroys a release that falls below the minimum.
//   - Chunks have any payload. Where the analyzer answers, as in shares, the answers are a stream of their own, which
//     only the analyzer writes and only the shuffler reads. Nothing in a chunk or an answer is signed by itself: the
//     chunks are named by the manifest, and the answers by the statement of the accepted set, both of which are signed
//     and are in the audit log before anyone acts on them. Until then, whoever controls the broker can make a release
//     fail, and no more.
//   - Participants is the analyzer's memory of the devices that it counted, for every channel in which devices prove
//     their participation to it (pkg/channel.Sender). It is on a Disk of the analyzer's own. It is durable before
//     anything leaves that depends on those devices' reports, and it refuses to be older than what the analyzer signed.
//
// # Channels that exchange several messages
//
// Release may take as long as it needs and talk to the analyzer meanwhile, over a broker interface that its channel
// declares. Each side makes what it says durable before it says it, and repeats it from there; what it cannot repeat
// byte for byte it must not say again. If the analyzer's accepted set turns out to be too small, Release returns
// ErrImpossible before the aggregate share leaves. Package shares is the example.
//
// # Where to add a channel
//
//   - pkg/channel/<name>: the device's side, vectors to payload, and the pure part of counting.
//   - pkg/channel/registry: its line, and the size of its payload.
//   - internal/channel/<name>: the two sides of the servers. A channel whose payload is one sealed envelope can use the
//     mixing side of shuffle, which permutes messages of any one size.
//   - pkg/plan: its name in Channels, which noise its guarantee counts (counted in check.go), on whom it rests
//     (trust.go). pkg/wire converts the name; the schema has its number.
//   - The lines where a channel is picked: shuffler.New, Config.counting in internal/analyzer/broker.go, and Reasons in
//     internal/analyzer/count.go. What of the broker it needs is in the Broker interfaces of the roles, with
//     subjects in internal/bus and rights in internal/broker.
//   - docs/architecture.md: a line for each new package. docs/privacy.md: which noise an observer does not know, and
//     why what the observer sees follows from the noised counts. docs/threat-model.md: its column.
package channel
