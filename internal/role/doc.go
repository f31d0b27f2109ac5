// Package role is the start-up shell of Riffle's roles: the part of a main that is the same for the randomizer, the
// shuffler and the analyzer. A role brings its configuration, as a struct, and its work, as two functions; it gets
// configuration loading, a logger, metrics, health, an ops listener, signals and exit codes.
//
// # Schema
//
// The struct is the schema, and its values are the defaults. From it come the keys of the file, the variables, the
// flags, --help and --print-config, so they cannot disagree. The tags of a field:
//
//	key:"minimum"    its key, lower_case; a struct is a section, and key:"." puts its keys among its parent's
//	doc:"..."        what it does, in which unit, and what its zero value means; not optional, except for a section
//	required:"true"  its zero value is a fault
//
// The types are string, bool, the integers, float64, time.Duration, []string, and types based on string,
// bool or a number.
//
// # Sources
//
// A field cohort.minimum of the role shuffler is set by, the last one winning,
//
//	its default
//	cohort: {minimum: 200}                 in the YAML file that --config or RIFFLE_SHUFFLER_CONFIG names
//	RIFFLE_SHUFFLER_COHORT_MINIMUM=200     in the environment; a variable that is set but empty counts as set
//	--cohort-minimum=200                   on the command line
//
// All of them write values alike: true and false, whole numbers and finite numbers (1_000 and 1e-6 are allowed, NaN
// and infinities are not), durations with a unit (90s, 1h30m), lists with commas (or as YAML lists; a flag may be
// repeated).
//
// Strictness: an unknown key, variable or flag is a fault, with the nearest name that exists. So is a key that is set
// twice in a file, a key without a value, a second YAML document, and a value of the wrong type. Variables of the
// form that Docker links and Kubernetes services add by themselves (..._PORT, ..._SERVICE_HOST) are passed over.
//
// No setting is a secret: a role's private keys lie in files of their own, and a setting names their folder.
//
// # Faults
//
// The loader goes on after a fault, and then asks the Validator of the configuration and of each of its sections, so
// that one run shows everything that is wrong. A fault names its keys, their values, and where each value came from:
//
//	cohort.minimum = 2000 (riffle.yaml:5) must be at most cohort.size = 50 (--cohort-size)
//
// Two things end it earlier: an unknown flag is shown alone, and Prepare is not called with a configuration that has
// faults.
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
