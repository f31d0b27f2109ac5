//go:build cgo || js

// Command libriffle is pkg/device as a library for other languages, in two forms with the same calls:
//
//	go build -buildmode=c-shared -o libriffle.so ./cmd/libriffle  # C: riffle_open, ...
//
//	# JavaScript: riffle.open, ...; without inlining, -l, a page loads an eleventh less
//	GOOS=js GOARCH=wasm go build -gcflags=all=-l -ldflags='-s -w' -o riffle.wasm ./cmd/libriffle
//
// It holds one device per handle and does what pkg/device does. It touches no network, file or clock: the caller
// carries the bytes, passes the time, and keeps what save returns. Randomness is the system's.
//
// # Calls
//
// open takes the configuration as JSON (see config) and what save returned, no bytes for a new device, and gives a
// handle, an integer above 0; close forgets the device and wipes its record. public gives the public half of a seed.
// All other calls are in the table of calls, whose comments say what each takes after the handle and what it returns:
// bytes of the wire (a request, an envelope), or JSON as text. Times are milliseconds since 1970 in UTC. Calls
// with one handle wait for each other; calls with different handles do not.
//
// An error is a sentence that names no value of a record, with a reason, a word of a fixed list (reasonOf), empty where
// there is no more to know. No panic crosses the boundary: it becomes the error "failed" without its text, which could
// hold a record.
//
// # C
//
//	typedef struct { int64_t handle; void *data; size_t size; char *error, *reason; } riffle_result;
//
// error is NULL where a call succeeded. Text that is passed ends in a zero byte. The caller owns what it passes: the
// library copies it and keeps no pointer. The caller owns what a result points to and gives it back with one call of
// riffle_free, whether the call succeeded or failed.
//
// # JavaScript
//
// The program sets globalThis.riffle and never ends: do not await Go.run. Each call returns a Promise, of a Uint8Array,
// a text or nothing, which is rejected with an Error that has a reason. Await one before the next is made: the order of
// calls that wait together is not promised. Where nobody can read the device's key, open takes its public half in the
// configuration, and as third argument a function that signs: it takes the message as a Uint8Array and returns the
// signature as one, or a Promise of it.
//
// # What it guarantees, and what not
//
// The guarantees and limits are those of pkg/device. The library cannot overwrite the caller's own copies of arms and
// rewards, nor of what save returned, which holds the record of an open promise.
package main
