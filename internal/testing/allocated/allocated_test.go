package allocated

import (
	"fmt"
	"testing"
)

// noted is a test that notes that it failed.
type noted struct {
	testing.TB
	said string
}

func (n *noted) Helper()                        {}
func (n *noted) Fatalf(format string, v ...any) { n.said = fmt.Sprintf(format, v...) }

var kept []byte

func TestWhatIsAllocatedIsBounded(t *testing.T) {
	for _, c := range []struct {
		bytes, takes int
		fails        bool
	}{{0, 0, false}, {0, 1 << 20, false}, {0, 16 << 20, true}, {1 << 16, 16 << 20, false}, {1 << 16, 64 << 20, true}} {
		n := &noted{TB: t}
		ForInput(n, c.bytes, func() { kept = make([]byte, c.takes) })
		if (n.said != "") != c.fails {
			t.Errorf("%+v: %q", c, n.said)
		}
	}
	kept = nil
}
