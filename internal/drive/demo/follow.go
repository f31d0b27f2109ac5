package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/internal/role/status"
)

// askTime bounds one question to a role. Progress that is late is shown at the next look.
const askTime = 2 * time.Second

// observe brings progress up to what the shuffler and the analyzer say of themselves. People are decided for within
// seconds; what takes the time comes after them, when reports are sealed, taken in and opened. Where a role does not
// answer, nothing changes.
func (d *audience) observe(ctx context.Context) {
	shuffler, err := snapshot(ctx, d.c.Ops(cluster.Shuffler))
	if err != nil {
		return
	}
	analyzer, err := snapshot(ctx, d.c.Ops(cluster.Analyzer))
	if err != nil {
		return
	}
	d.o.Progress.Update(func(s *progress.State) { advance(s, d.pace, shuffler, analyzer) })
}

// snapshot asks a role at its ops listener.
func snapshot(ctx context.Context, ops string) (s status.Snapshot, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, ops+"/status.json", nil)
	if err != nil {
		return s, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return s, err
	}
	defer func() { _ = response.Body.Close() }() // it was read
	if response.StatusCode != http.StatusOK {
		return s, fmt.Errorf("%s answers %s", ops, response.Status)
	}
	return s, json.NewDecoder(response.Body).Decode(&s)
}

// advance brings progress up to what the roles say. It never goes back: a role that was started again replays its past.
func advance(s *progress.State, p pace, shuffler, analyzer status.Snapshot) {
	arrived, messages, counted := 0, 0, 0
	for _, r := range shuffler.Releases {
		arrived += r.Reports
		messages += r.Messages
	}
	if c := shuffler.Cohort; c != nil && c.Reports != nil && !over(shuffler) {
		arrived += *c.Reports
		messages += *c.Reports * c.Messages
	}
	for _, r := range analyzer.Releases {
		counted += r.Reports
	}
	if c := analyzer.Cohort; c != nil && c.Opened != nil && c.Messages > 0 && !over(analyzer) {
		counted += *c.Opened / c.Messages
	}
	s.Epochs = max(s.Epochs, analyzer.Epochs)
	s.Reports = max(s.Reports, arrived)
	if p.bits {
		s.Messages = max(s.Messages, messages)
	}
	s.Counted = max(s.Counted, min(counted, s.Reports)) // of the messages that were opened some are a server's noise
	s.Work = max(s.Work, min(s.AllWork, p.progress(s.Reports, s.Counted, len(analyzer.Releases))))
}

// over reports whether the round that a role shows as its latest is among those that are over.
func over(s status.Snapshot) bool {
	n := len(s.Releases)
	return n > 0 && s.Releases[n-1].Epoch == s.Epoch && s.Releases[n-1].Round == s.Round
}
