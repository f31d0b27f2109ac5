// Package guards holds the list of the places where noise is added, a value is brought into its range, or a bound on
// what one record can do is applied, each with a change of the code that takes it away and the test that then fails.
// Its tests hold that the list fits the code, that docs/conditions/guards.csv has it, and, with RIFFLE_LONG=1, that
// every named test fails without its guard. It has no code of its own.
package guards
