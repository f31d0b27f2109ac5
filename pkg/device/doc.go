// Package device is all that a device does between a decision and a sealed report. It is pure: random sources,
// identities and the time are passed in, and nothing here touches a broker, a store, a clock, the network, a file, a
// log or global randomness, with one exception (below). It builds for every target of Go; cmd/libriffle makes a C
// library of it.
//
// # One device
//
// Device is one device with an identity of its own, as a binding for another language sees it: Open, Follow, Keys,
// Enrol, Answer, Decide, Reward, Report, Save. The caller carries bytes between it and the broker, keeps what Save
// returns, and calls Report when it is due. A device that may be gone by then, as a page is, calls Deposit in place of
// Report, for a mailbox that sends the report.
//
// # Many devices
//
// A host of many devices, such as internal/randomizer, uses the parts that Device is made of. Core judges and makes
// statements for all devices of an identity. Announced is a judged announcement, which they share. State is what one
// device has promised and spent: every step returns the state that must be durable first. Record is the record of one
// decision.
//
// # What it guarantees
//
// The guarantee of every plan is computed here and compared with the device's own limits; a weaker one is refused.
// Announcements and the shuffler's keys form chains, and an earlier one is refused (ErrRewound). The ledger sets a
// guarantee aside before the shuffler hears of the device. A report has the same length and takes the same number of
// random words whatever the record; a record that cannot be encoded, a missing reward and a missing decision are
// reported as the null record. Rewards are clipped. A record exists inside one value, is overwritten after its last
// report, and can be neither printed nor marshalled. Device.Save alone writes it, for the device's own disk, and until
// then. A Device that is opened with an older copy of its state, of any step since it asked for its slot, draws no
// other noise for the same record under the same announcement.
//
// # What it does not guarantee
//
// A device must enrol, and deposit, before it reads the arms, and send its report when it is due: this package cannot
// see when its caller does. It relies on its caller to make states durable, and on the shuffler and the analyzer not to
// work together (docs/threat-model.md). Copies that the garbage collector or the operating system made of a record are
// not overwritten. Encryption draws its ephemeral keys from crypto/rand, whatever source is passed in: the library that
// pkg/seal uses is given no other there. So does a Device draw the secret of each promise, from which its rounding and
// noise come. Whoever reads what Save returned while a promise is open reads its record.
package device
