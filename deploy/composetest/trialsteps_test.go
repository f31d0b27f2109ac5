package composetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/pkg/wire"
)

func outcomeOf(m *wire.Manifest) string {
	if m.Outcome == wire.Released {
		return "released"
	}
	return "destroyed"
}

// manifest looks for the manifest of an epoch; nil where there is none yet.
func (x *trial) manifest(epoch uint64) (found *wire.Manifest, err error) {
	ctx, cancel := context.WithTimeout(x.ctx, 3*time.Second)
	defer cancel()
	filter := bus.AuditFilter{Role: bus.Shuffler, Kind: "manifest"}
	err = x.auditor.Audit.ReadAudit(ctx, filter, func(st bus.Statement) error {
		m, _, err := wire.Open[wire.Manifest](st.Payload, x.bundle.ShufflerParty())
		if err == nil && m.Epoch == epoch {
			found = m
		}
		return err
	})
	return found, err
}

// awaitManifest waits for an epoch's manifest. watch is called in between.
func (x *trial) awaitManifest(epoch uint64, watch func()) (*wire.Manifest, error) {
	for until := time.Now().Add(trialPatience); time.Now().Before(until); {
		if watch != nil {
			watch()
		}
		if m, err := x.manifest(epoch); err == nil && m != nil {
			return m, nil
		}
		time.Sleep(300 * time.Millisecond)
	}
	return nil, fmt.Errorf("no manifest of epoch %d after %.0f s", epoch, trialPatience.Seconds())
}

// close waits for the manifest of the case's cohort and enters it in the table. before is what the hosts had handed in
// when the case began.
func (x *trial) close(before int) error {
	m, err := x.awaitManifest(x.epoch, func() {
		if n := x.handedIn() - before; n > x.row.reported {
			x.row.reported = n
		}
	})
	if err != nil {
		x.stuck()
		return err
	}
	x.row.enrolled, x.row.outcome = int(m.Enrolled), outcomeOf(m)
	if x.row.reported < int(m.Reports) {
		x.row.reported = int(m.Reports)
	}
	// A host that was set back hands in again what it had handed in, and copies are refused: more than were promised
	// are not missing.
	x.row.reported = min(x.row.reported, int(m.Enrolled))
	if missing := x.row.reported - int(m.Reports); missing > 0 && x.row.outcome == "released" {
		x.fault("%d reports that were at the broker are not in the release", missing)
	}
	return nil
}

// handedIn counts the reports that the broker has confirmed to the hosts since they started.
func (x *trial) handedIn() (n int) {
	for _, host := range []string{"host1", "host2"} {
		var v struct {
			Accounts []struct {
				Item     string
				Released int
			}
		}
		client := http.Client{Timeout: time.Second}
		answer, err := client.Get(x.ops[host] + "/status.json")
		if err != nil {
			continue
		}
		if json.NewDecoder(answer.Body).Decode(&v) == nil {
			for _, a := range v.Accounts {
				if a.Item == "report" {
					n += a.Released
				}
			}
		}
		_ = answer.Body.Close()
	}
	return n
}

// countOwed counts the reports that are promised and not handed in; -1 where a host does not answer.
func (x *trial) countOwed() (n int) {
	for _, api := range x.apis {
		var s status
		if err := x.crowd.call(x.ctx, http.MethodGet, api+"/v1/status", nil, &s); err != nil {
			return -1
		}
		n += s.Pending
	}
	return n
}

// handIn waits until everything that was promised is handed in.
func (x *trial) handIn(within time.Duration) error {
	for until := time.Now().Add(within); ; time.Sleep(200 * time.Millisecond) {
		n := x.countOwed()
		if n == 0 {
			return nil
		}
		if time.Now().After(until) {
			return fmt.Errorf("%d reports were not handed in after %.0f s", n, within.Seconds())
		}
	}
}

// restarts counts how often Docker started each container anew.
func (x *trial) restarts() map[string]int {
	n := map[string]int{}
	for _, service := range append(x.roles(), "nats") {
		out, err := x.stack.run("docker", "inspect", "-f", "{{.RestartCount}}", x.id(service))
		if err == nil {
			n[service], _ = strconv.Atoi(strings.TrimSpace(out))
		}
	}
	return n
}

// health is what Docker says of a container, and what its health check said last.
func (x *trial) health(service string) (state, said string) {
	var v struct {
		Status string
		Log    []struct{ Output string }
	}
	out, err := x.stack.run("docker", "inspect", "-f", "{{json .State.Health}}", x.id(service))
	if err != nil || json.Unmarshal([]byte(out), &v) != nil || len(v.Log) == 0 {
		return "", ""
	}
	return v.Status, strings.TrimPrefix(v.Log[len(v.Log)-1].Output, "healthcheck: ")
}

// save copies a volume of a service that does not run, and load brings the copy back.
func (x *trial) save(volume string) string {
	file := filepath.Join(x.dir, fmt.Sprintf("%s-%d.tar", volume, time.Now().UnixNano()))
	x.must("sh", "-c", `docker run --rm -v "$0:/v" "$1" save /v > "$2"`, x.project+"_"+volume,
		x.helper, file)
	return file
}

func (x *trial) load(volume, file string) {
	x.must("sh", "-c", `docker run --rm -i -v "$0:/v" "$1" load /v < "$2"`, x.project+"_"+volume,
		x.helper, file)
}

// stop ends a service as an operator would.
func (x *trial) stop(service string) {
	x.must("docker", "stop", "-t", "15", x.id(service))
}

// copyOf stops a service, copies its volume, and starts it again.
func (x *trial) copyOf(service, volume string) string {
	x.stop(service)
	file := x.save(volume)
	x.start(service)
	return file
}

// bringBack puts a copy in the place of a service's volume and returns a copy of what was there.
func (x *trial) bringBack(service, volume, file string) (newer string) {
	x.stop(service)
	newer = x.save(volume)
	x.load(volume, file)
	x.start(service)
	return newer
}

// steady waits until every role is ready, or says which is not.
func (x *trial) steady(within time.Duration) error {
	for until := time.Now().Add(within); ; time.Sleep(watchEvery) {
		why := x.watch.lately(x.roles())
		if len(why) == 0 {
			return nil
		}
		if time.Now().After(until) {
			return errors.New(tell(why))
		}
	}
}
