package container_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/riffle-dp/riffle/internal/container"
)

// Answers of nats-server 2.15.
const (
	answerFull = `{"status":"unavailable","status_code":503,` +
		`"error":"JetStream stream 'STREAMS > REPORTS' ` +
		`write error: write /data/jetstream/STREAMS/streams/REPORTS/msgs/2.blk: no space left on device"}`
	answerOff = `{"status":"unavailable","status_code":503,"error":"JetStream not enabled"}`
	answerBad = `{"status":"unavailable","status_code":503,` +
		`"error":"JetStream stream 'STREAMS > REPORTS' ` +
		`write error: write /data/jetstream/STREAMS/streams/REPORTS/msgs/2.blk: input/output error"}`
	answerSoon = `{"status":"error","status_code":500,"error":"nats: server is not ready for connections"}`
)

// A broker that keeps a write error is to be restarted once its disk has room, and not before: without room it would
// fail again. What a restart does not mend, or what passes by itself, ends no broker.
func TestOnlyAStuckBrokerIsRestarted(t *testing.T) {
	const room = 1 << 30
	for name, c := range map[string]struct {
		answer string // "": it is ready
		free   uint64
		want   error
	}{
		"ready":                              {"", room, nil},
		"a full disk without a failed write": {"", 1 << 20, container.ErrDiskFull},
		"a full disk":                        {answerFull, 1 << 20, container.ErrDiskFull},
		"a disk that has room again":         {answerFull, room, container.ErrStuck},
		"one of several, switched off":       {answerOff, room, container.ErrStuck},
		"one of several, and no room":        {answerOff, 0, container.ErrDiskFull},
		"a broken disk":                      {answerBad, room, container.ErrNotReady},
		"not started yet":                    {answerSoon, room, container.ErrNotReady},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if c.answer != "" {
					http.Error(w, c.answer, http.StatusServiceUnavailable)
				}
			}))
			defer server.Close()
			b := container.Broker{Health: server.URL, Data: "/data",
				Free: func(string) (uint64, error) { return c.free, nil }}
			if err := b.Check(t.Context()); !errors.Is(err, c.want) ||
				errors.Is(err, container.ErrStuck) != (c.want == container.ErrStuck) {
				t.Errorf("%v, not %v", err, c.want)
			}
		})
	}
	blind := container.Broker{Data: "/data", Free: func(string) (uint64, error) { return 0, errors.ErrUnsupported }}
	if err := blind.Check(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a disk that cannot be asked: %v", err)
	}
}

// A liveness probe must not end a broker that a restart does not help, above all not one whose disk is still full.
func TestLivenessFailsOnlyWhereARestartHelps(t *testing.T) {
	for answer, ok := range map[string]bool{"": true, answerSoon: true, answerBad: true, answerFull: false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if answer != "" {
				http.Error(w, answer, http.StatusServiceUnavailable)
			}
		}))
		cmd := container.BrokerHealthCommand(server.URL, t.TempDir())
		cmd.SetArgs([]string{"--alive"})
		if err := cmd.Execute(); (err == nil) != ok {
			t.Errorf("%q: %v", answer, err)
		}
		server.Close()
	}
}
