package shuffler

import (
	"errors"
	"strings"
	"testing"
)

// A shuffler that was given less memory than mixing needs says so before it starts, and the defaults are enough.
func TestTooLittleMemoryIsRefused(t *testing.T) {
	for memory, refused := range map[int]bool{
		DefaultMemory: false, leastMemory: false, leastMemory - 1: true, 0: true, -1: true,
	} {
		s := Role().Defaults
		s.Memory = memory
		if err := errors.Join(s.Validate()...); (err != nil && strings.Contains(err.Error(), "memory")) != refused {
			t.Errorf("%d MiB: %v", memory, err)
		}
	}
}
