// Package allocated bounds the memory that a reader takes. A few bytes of somebody else's must not make a process
// allocate many.
package allocated

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
)

const (
	// fixed is what any input may take: what Go counts late of small objects, a buffer, a small state.
	fixed = 8 << 20
	// each is what a byte of the input may take besides: JSON of numbers takes some ten, sums and sets of them as much.
	each = 256
)

// ForInput runs f, which reads an input of this many bytes, and fails the test if it allocates more than an input of
// that length may: 8 MiB, and 256 bytes for each byte. What was freed meanwhile counts, too, and so does what other
// goroutines allocate.
func ForInput(tb testing.TB, bytes int, f func()) {
	tb.Helper()
	before := allocated()
	f()
	if n, most := allocated()-before, fixed+each*uint64(bytes); n > most {
		tb.Fatalf("%d bytes of input take %d of memory, at most %d", bytes, n, most)
	}
}

// allocated is how many bytes this process has allocated so far.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// Peak is by how much the heap grew at most while f ran, garbage included.
func Peak(f func()) int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before, most := int64(m.HeapInuse), int64(0)
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	for {
		runtime.ReadMemStats(&m)
		most = max(most, int64(m.HeapInuse)-before)
		select {
		case <-done:
			return most
		case <-time.After(time.Millisecond):
		}
	}
}
