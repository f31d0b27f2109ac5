package audit_test

import (
	"os"
	"runtime"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/testing/ledger"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// many is a deployment with so many releases. The profile joint plans in a millisecond; all entries are as in others.
func many(t testing.TB, releases int) *ledger.Ledger {
	t.Helper()
	c := ledger.Small(glm.Joint, plan.Central, releases)
	c.Batch = 12
	l, err := ledger.Make(ledger.Options{Configuration: c})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// An audit keeps nothing of a round that is over: its memory is flat. RIFFLE_LONG=1 audits 1000 releases in place of
// 150.
func TestMemoryIsFlat(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	releases := 150
	if os.Getenv("RIFFLE_LONG") != "" {
		releases = 1000
	}
	const early = 50
	l := many(t, releases)
	var heap [2]uint64 // when the early round was over, and when the last one was
	seen := 0
	r := check(t, l, audit.Options{Row: func(audit.Row) {
		seen++
		if seen != early && seen != releases {
			return
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		heap[min(seen/releases, 1)] = m.HeapAlloc
	}})
	if !r.OK || r.Releases != releases {
		t.Fatalf("%d of %d releases%s", r.Releases, releases, list(r))
	}
	grown := int64(heap[1]) - int64(heap[0])
	t.Logf("heap after %d releases: %d kB; after %d: %d kB", early, heap[0]>>10, releases, heap[1]>>10)
	if most := int64(32 << 10); grown > most {
		t.Errorf("%d bytes more after %d releases than after %d, at most %d", grown, releases, early, most)
	}
}

// BenchmarkAudit is the time of one release.
func BenchmarkAudit(b *testing.B) {
	for name, l := range map[string]*ledger.Ledger{
		"joint":     many(b, 50),
		"practical": made(b, ledger.Options{Configuration: ledger.Small(glm.Practical, plan.Shuffle, 6)}),
		"paper":     made(b, configuration(sums)),
	} {
		b.Run(name, func(b *testing.B) {
			releases := 0
			for b.Loop() {
				releases += check(b, l, audit.Options{}).Releases
			}
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(releases), "ms/release")
		})
	}
}
