// Package bench measures a deployment: real processes of broker, shuffler and analyzer over real streams, with devices
// inside this process. It says what each role costs a person in processor time, bytes and memory, how that grows with
// the cohort, and how far it is from bounds that are measured in the same run on the same cores.
//
// # What is run and what is computed
//
// Sealing a report of the default plan costs a device some ten milliseconds, so that a million of them would take hours
// before a server sees one. Three kinds of load tell the roles' costs apart:
//
//   - Devices: everything is as in a deployment. Each bit is sealed, mixed, opened and counted.
//   - Kept reports: payloads that were sealed once are reported to a fresh deployment with the same keys and the same
//     announcement, again and again. Every sum must be the same each time, whatever the number of workers.
//   - Junk: reports that are as they should be to the shuffler, with random bytes in place of sealed bits. The shuffler
//     cannot tell, and does all of its work. Nobody can open them, so the analyzer's part is played.
//
// Each row says which of them it comes from. Rows that were computed from others say so in the same place.
//
// # Times
//
// Processor time is what the kernel charged to each process, user and system, so that other work on the machine
// disturbs it little. Wall time is the whole machine's, and what else runs there shows. Bounds are in processor time of
// one core, the least of several measurements.
package bench
