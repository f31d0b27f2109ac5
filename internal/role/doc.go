// Package role is the start-up shell of Riffle's roles: the part of a main that is the same for the randomizer, the
// shuffler and the analyzer. A role brings its configuration, as a struct, and its work, as two functions; it gets
// configuration loading, a logger, metrics, health, an ops listener, signals and exit codes.
//
// Its folders are what the shell shows of a role and gives to it: outcome counts what became of each item, for the log
// and the metrics; status is the page on the ops listener; entropy is where random bits come from.
//
// # Configuration
//
// Package config reads it: the struct is the schema, and all faults are shown at once. Two things end that earlier: an
// unknown flag is shown alone, and Prepare is not called with a configuration that has faults.
//
// --check-config does what starting does up to and including Prepare, and then exits with 0 or 1. It does not try
// what is outside the process: ports, the broker, locks.
//
// # Running
//
// After Prepare the shell opens the ops listener (/metrics, /healthz, /readyz and whatever the role mounted) and
// calls Serve. SIGINT and SIGTERM end the context of Serve and the role's readiness; Serve then has ops.stop_within
// to return. A second signal ends the process at once. A role must therefore be safe to end at any point, as it must
// be anyway.
//
// Exit codes: 0 (ExitOK), 1 (ExitConfig), 2 (ExitFailed; also a panic, by the rule of Go) and 3 (ExitNow). Before
// Serve, an error is plain text on standard error; from then on, it is a log line.
//
// # Not promised
//
// The ops listener does not ask who is calling, and has no TLS. The shell does not reload a configuration: restart
// the role. It keeps payloads out of its own log lines and error texts; it cannot keep a role from logging one.
package role
