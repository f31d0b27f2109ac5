// Package mailbox keeps the sealed reports of pages that may be closed before their reports are due, and hands each to
// the deployment's ingress when it is. An app's own backend serves it, since it sees the visits anyway: a mailbox is
// inside the trust of the people who use it.
//
// # Why
//
// The guarantee assumes that whether and when a device reports does not depend on its record. Who closes a page often
// does so because of the decision. So the device deposits the null record's report before the arms are known
// (pkg/device, Device.Deposit), and its record's in place of it after the reward, of the same size.
//
// # What it guarantees
//
// A deposit that was answered with 204 is in the store, durably, and is offered to the ingress from the time that its
// first deposit named on, until the ingress has it or says that the round is over. That time, which report is sent
// before which, and how often a report is tried follow from the first deposits and the ingress's answers alone, never
// from whether there was a second. From a second before a report is due nothing takes its place: what is sent again
// after a crash is what was sent before. An account has one deposit in an epoch and a bounded number in all, so memory
// and disk are bounded, and a ticket has one of one account. Nothing is logged. Accounts are stored as keyed hashes.
// All this is so while the store takes less than a second: a second deposit that it takes longer over, just before the
// report is due, makes that late.
//
// # What it learns
//
// It holds no key of the deployment: reports are sealed to the shuffler. It learns which account took part, and whether
// and when there was a reward, by the second deposit. Together with the shuffler or the analyzer it adds that to what
// they see; of what is in the record they learn no more than without it (docs/privacy.md).
//
// # What it does not do
//
// It cannot check a ticket or open a report: an account may deposit junk in its own place, which the ingress refuses.
// Time is what the device says: correct the device's clock by the header Date of any answer.
package mailbox
