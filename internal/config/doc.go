// Package config is how a role is configured: its struct is the schema, which a file, variables and flags fill, and
// every fault is found at once.
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
package config
