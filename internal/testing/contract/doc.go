// Package contract holds tests of the privacy conditions over all three roles together, in one process and on a real
// broker. Tests name conditions by their numbers in docs/conditions.md, which lists every condition with the tests that
// hold it.
package contract
