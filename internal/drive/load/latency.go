package load

import (
	"slices"
	"sync"
	"time"

	"gonum.org/v1/gonum/stat"
)

// latency collects times of one kind of call.
type latency struct {
	mu    sync.Mutex
	times []float64 // in milliseconds
}

func (l *latency) add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.times = append(l.times, float64(d.Microseconds())/1000)
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
	if len(l.times) == 0 {
		return Latency{}
	}
	slices.Sort(l.times)
	at := func(q float64) float64 { return stat.Quantile(q, stat.Empirical, l.times, nil) }
	return Latency{
		Calls: int64(len(l.times)), Mean: stat.Mean(l.times, nil), P50: at(.5), P90: at(.9), P99: at(.99),
		P999: at(.999),
		Max:  at(1),
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
