package composetest

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// sample is what one listener said at one time.
type sample struct {
	at    time.Time
	ready bool
	said  string
	took  time.Duration
}

// watch looks at every role's readiness, and at how long its metrics take, as those do who are paged by it.
type watch struct {
	end  chan struct{}
	done sync.WaitGroup

	mu      sync.Mutex
	samples map[string][]sample // by service
	slowest time.Duration       // answer of /metrics
	slow    string              // whose
}

const (
	watchEvery    = 500 * time.Millisecond
	watchPatience = 3 * time.Second
)

func (s *stack) watch() *watch {
	w := &watch{end: make(chan struct{}), samples: map[string][]sample{}}
	for service, ops := range s.ops {
		for path, every := range map[string]time.Duration{"/readyz": watchEvery, "/metrics": 2 * time.Second} {
			w.done.Go(func() {
				client := http.Client{Timeout: watchPatience, Transport: &http.Transport{DisableKeepAlives: true}}
				for {
					begin := time.Now()
					x := sample{at: begin}
					answer, err := client.Get(ops + path)
					if err == nil {
						text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
						_ = answer.Body.Close()
						x.ready = answer.StatusCode == http.StatusOK
						x.said = strings.TrimSpace(string(text))
					} else {
						x.said = "no answer"
					}
					x.took = time.Since(begin)
					w.mu.Lock()
					if path == "/readyz" {
						w.samples[service] = append(w.samples[service], x)
					} else if err == nil && x.took > w.slowest {
						w.slowest, w.slow = x.took, service
					}
					w.mu.Unlock()
					select {
					case <-w.end:
						return
					case <-time.After(every):
					}
				}
			})
		}
	}
	return w
}

func (w *watch) stop() { close(w.end); w.done.Wait() }

// last is what a role said last.
func (w *watch) last(service string) sample {
	w.mu.Lock()
	defer w.mu.Unlock()
	if all := w.samples[service]; len(all) > 0 {
		return all[len(all)-1]
	}
	return sample{said: "nothing"}
}

// unready tells after how long from a time a role first said that it is not ready, and what it said. ok is false where
// it said before the end that it is ready, later than the patience allows, or never that it is not.
func (w *watch) unready(service string, from, to time.Time, patience time.Duration) (after time.Duration,
	said string, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.samples[service] {
		switch {
		case x.at.Before(from) || x.at.Add(x.took).After(to):
		case !x.ready && said == "":
			after, said = x.at.Sub(from), x.said
		case x.ready && x.at.Sub(from) > patience:
			return after, fmt.Sprintf("%s said that it is ready %.0f s after", service, x.at.Sub(from).Seconds()), false
		}
	}
	return after, said, said != "" && after <= patience
}

// lately lists the roles that say that they are not ready, and why.
func (w *watch) lately(services []string) (why []saying) {
	for _, service := range slices.Sorted(slices.Values(services)) {
		if x := w.last(service); !x.ready {
			why = append(why, saying{who: service, why: x.said})
		}
	}
	return why
}

// tell is sayings in words.
func tell(all []saying) string {
	var words []string
	for _, s := range all {
		words = append(words, s.who+": "+strings.ReplaceAll(s.why, "\n", "; "))
	}
	return strings.Join(words, " | ")
}
