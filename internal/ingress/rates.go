package ingress

import (
	"net/netip"
	"sync"
	"time"
)

// maxNetworks bounds how many networks rates remember: some 5 MB.
const maxNetworks = 1 << 16

// burstTime is for how long a network that was quiet may send at once what its rate allows for so long.
const burstTime = 10 * time.Second

// rates bounds how many requests come from one network. It remembers those that sent lately.
type rates struct {
	every time.Duration // between two requests of one network, in the long run

	mu    sync.Mutex
	until map[netip.Prefix]time.Time // when a network's requests so far would be done at its rate
	swept time.Time
}

// newRates allows a network so many requests a second.
func newRates(perSecond float64) *rates {
	return &rates{every: time.Duration(float64(time.Second) / perSecond), until: map[netip.Prefix]time.Time{}}
}

// take counts a request of a network that comes now. wait is for how long it is too early, 0 where it is not: then it
// is not counted.
func (r *rates) take(from netip.Prefix, now time.Time) (wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	until, known := r.until[from]
	if !known || until.Before(now) {
		until = now
	}
	if wait = until.Sub(now) + r.every - max(burstTime, r.every); wait > 0 {
		return wait
	}
	if !known {
		r.makeRoom(now)
	}
	r.until[from] = until.Add(r.every)
	return 0
}

// makeRoom forgets networks that are as good as new, once a second at most, and any one where there is none: who has
// that many networks is not to be stopped by counting, and nobody else shall be refused for it.
func (r *rates) makeRoom(now time.Time) {
	if len(r.until) < maxNetworks {
		return
	}
	if now.Sub(r.swept) >= time.Second {
		r.swept = now
		for n, until := range r.until {
			if until.Before(now) {
				delete(r.until, n)
			}
		}
	}
	for n := range r.until {
		if len(r.until) < maxNetworks {
			return
		}
		delete(r.until, n)
	}
}
