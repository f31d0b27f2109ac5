// Package simulation runs a whole deployment in one goroutine's hands: the real code of shuffler, analyzer and several
// hosts, over the broker of package fakebroker, with journals, stores and disks in memory, under the virtual time of
// testing/synctest. A list of operations (List) says what people do and what goes wrong; a seed says in which order
// requests, deliveries and writes go on. The same list with the same seed gives the same run.
//
// While a list runs and after it, an oracle holds what left each role against what each simulated device put into its
// report, and against the privacy contract. A list that fails is made smaller (Shrink) and can be kept as a file.
//
// What it does not simulate: several processes of one role, workers, the HTTP of the local API, and a time of day that
// is set while the machine's own count of time goes on: a clock that jumps here is that of a machine that was
// suspended.
package simulation
