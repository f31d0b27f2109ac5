package load

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/riffle-dp/riffle/internal/drive/crowd"
)

// Account is one role's account of one kind of item, as its /metrics shows it:
// resumed + received = released + refused + pending, or something is unaccounted.
type Account struct {
	Role        string         `json:"role"`
	Item        string         `json:"item"`
	Received    int            `json:"received"`
	Resumed     int            `json:"resumed"`
	Released    int            `json:"released"`
	Refused     map[string]int `json:"refused"`
	Pending     int            `json:"pending"`
	Unaccounted int            `json:"unaccounted"`
}

func (a Account) refusals() (n int) {
	for _, k := range a.Refused {
		n += k
	}
	return n
}

// A sample is one line of /metrics.
type sample struct {
	name   string
	labels map[string]string
	value  float64
}

// label is one label of a sample. Values of ours hold no quotes; others are skipped with their line's rest.
var label = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"`)

// parseMetrics reads the text format of Prometheus.
func parseMetrics(text io.Reader) ([]sample, error) {
	var out []sample
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		head, rest, labelled := strings.Cut(line, "{")
		s := sample{name: head, labels: map[string]string{}}
		number := ""
		if labelled {
			end := strings.LastIndex(rest, "} ")
			if end < 0 {
				return nil, fmt.Errorf("load: metrics: %q", line)
			}
			for _, m := range label.FindAllStringSubmatch(rest[:end], -1) {
				s.labels[m[1]] = m[2]
			}
			number = rest[end+2:]
		} else if s.name, number, labelled = strings.Cut(line, " "); !labelled {
			return nil, fmt.Errorf("load: metrics: %q", line)
		}
		v, err := strconv.ParseFloat(strings.Fields(number + " x")[0], 64)
		if err != nil {
			return nil, fmt.Errorf("load: metrics: %q: %w", line, err)
		}
		s.value = v
		out = append(out, s)
	}
	return out, lines.Err()
}

// opsTime bounds one look at an ops listener.
const opsTime = 5 * time.Second

// metricsOf reads what a role's ops listener shows.
func metricsOf(ctx context.Context, base string) ([]sample, error) {
	ctx, cancel := context.WithTimeout(ctx, opsTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base, "/")+"/metrics", nil)
	if err != nil {
		return nil, fmt.Errorf("load: --ops %s: %w", base, err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, fmt.Errorf("load: --ops %s: %w", base, err)
	}
	defer func() { _ = response.Body.Close() }() // it was read
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("load: --ops %s: it answered %s", base, response.Status)
	}
	return parseMetrics(response.Body)
}

// countEnrolled is the number of slots of an epoch's cohort that are taken, as the shuffler's ops listener shows; false
// if none of the listeners is that of a shuffler in this epoch.
func countEnrolled(ctx context.Context, ops []string, epoch uint64) (int, bool) {
	for _, base := range ops {
		samples, err := metricsOf(ctx, base)
		if err != nil {
			continue
		}
		at, taken := 0.0, -1
		for _, s := range samples {
			switch {
			case s.labels["role"] != "shuffler":
			case s.name == "riffle_epoch":
				at = s.value
			case s.name == "riffle_cohort_enrolled":
				taken = int(s.value)
			}
		}
		if taken >= 0 && at == float64(epoch) {
			return taken, true
		}
	}
	return 0, false
}

// accounts reads the accounts that a role's ops listener shows.
func accounts(ctx context.Context, base string) ([]Account, error) {
	samples, err := metricsOf(ctx, base)
	if err != nil {
		return nil, err
	}
	var out []Account
	at := map[[2]string]int{}
	for _, s := range samples {
		key := [2]string{s.labels["role"], s.labels["item"]}
		if key[1] == "" {
			continue
		}
		if _, ok := at[key]; !ok {
			at[key] = len(out)
			out = append(out, Account{Role: key[0], Item: key[1], Refused: map[string]int{}})
		}
		a, n := &out[at[key]], int(s.value)
		switch s.name {
		case "riffle_received_total":
			a.Received = n
		case "riffle_resumed_items":
			a.Resumed = n
		case "riffle_released_total":
			a.Released = n
		case "riffle_pending_items":
			a.Pending = n
		case "riffle_unaccounted_items":
			a.Unaccounted = n
		case "riffle_refused_total":
			if n > 0 {
				a.Refused[s.labels["reason"]] = n
			}
		}
	}
	return out, nil
}

// allAccounts reads every role's accounts, again and again until they balance or patience ends: items may be on their
// way.
func allAccounts(ctx context.Context, ops []string, patience time.Duration) (all []Account, err error) {
	deadline := time.Now().Add(patience)
	for {
		all = all[:0]
		balanced := true
		for _, base := range ops {
			some, err := accounts(ctx, base)
			if err != nil {
				return nil, err
			}
			for _, a := range some {
				balanced = balanced && a.Unaccounted == 0
			}
			all = append(all, some...)
		}
		if balanced || time.Now().After(deadline) || !crowd.Pause(ctx, crowd.Look) {
			return all, nil
		}
	}
}
