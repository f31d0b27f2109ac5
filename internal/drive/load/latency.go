package load

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histograms hold microseconds up to two minutes with three digits.
const (
	longest = 2 * time.Minute
	digits  = 3
)

// latency collects times of one kind of call.
type latency struct {
	mu sync.Mutex
	h  *hdrhistogram.Histogram
}

func newLatency() *latency {
	return &latency{h: hdrhistogram.New(1, longest.Microseconds(), digits)}
}

func (l *latency) add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.h.RecordValue(min(max(1, d.Microseconds()), longest.Microseconds())) // in range by construction
}

// Latency is how long calls took, in milliseconds.
type Latency struct {
	Calls int64   `json:"calls"`
	Mean  float64 `json:"mean_ms"`
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P99   float64 `json:"p99_ms"`
	P999  float64 `json:"p999_ms"`
	Max   float64 `json:"max_ms"`
}

func (l *latency) result() Latency {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := func(q float64) float64 { return float64(l.h.ValueAtQuantile(q)) / 1000 }
	return Latency{
		Calls: l.h.TotalCount(), Mean: l.h.Mean() / 1000, P50: at(50), P90: at(90), P99: at(99), P999: at(99.9),
		Max: float64(l.h.Max()) / 1000,
	}
}

// throughput counts people by second.
type throughput struct {
	mu    sync.Mutex
	begin time.Time
	per   map[int]int
	last  time.Time
	n     int
}

func (t *throughput) add(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n++
	t.per[int(now.Sub(t.begin)/time.Second)]++
	t.last = now
}

// rates are people a second over the whole drive, and in its best second.
func (t *throughput) rates() (mean, peak float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.per {
		peak = max(peak, float64(n))
	}
	if d := t.last.Sub(t.begin).Seconds(); d > 0 {
		mean = float64(t.n) / d
	}
	return mean, peak
}
