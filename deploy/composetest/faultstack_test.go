package composetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// faultyYAML puts a tap between every role and the broker, and every state into memory of a fixed size.
const faultyYAML = `
x-tapped: &tapped {tap: {condition: service_started}, provision: {condition: service_completed_successfully}}
services:
  tap:
    image: HELPER
    entrypoint: [/tap]
    user: "UID:UID"
    networks: [host1, host2, mixing, analysis, operation, outside]
    ports: ["127.0.0.1:PORT:9000"]
    environment:
      TAP_BROKER: nats:4222
      TAP_LINKS: "host1=:4301 host2=:4302 shuffler=:4303 analyzer=:4304"
      TAP_CONTROL: ":9000"
    volumes:
      - ${RIFFLE_RUN}/keys/broker-nats:/tls:ro
      - ${RIFFLE_RUN}/keys/ca.pem:/ca.pem:ro
    healthcheck: {test: [CMD, /tap, healthcheck], interval: 2s, retries: 30}
  host1: {environment: {RIFFLE_RANDOMIZER_BROKER_URL: "tls://tap:4301", RIFFLE_RANDOMIZER_BROKER_SERVER_NAME: nats}}
  host2: {environment: {RIFFLE_RANDOMIZER_BROKER_URL: "tls://tap:4302", RIFFLE_RANDOMIZER_BROKER_SERVER_NAME: nats}}
  shuffler: {environment: {RIFFLE_SHUFFLER_BROKER_URL: "tls://tap:4303", RIFFLE_SHUFFLER_BROKER_SERVER_NAME: nats}}
  analyzer: {environment: {RIFFLE_ANALYZER_BROKER_URL: "tls://tap:4304", RIFFLE_ANALYZER_BROKER_SERVER_NAME: nats}}
  provision:
    command: [broker, provision, --keys, /keys, --broker-url, "tls://nats:4222", --broker-ca, /keys/ca.pem,
      --max-report-bytes, "33554432", --max-report-size, "131072", --max-host-reports, "100",
      --max-mixed-bytes, "33554432", --max-audit-bytes, "33554432",
      --max-announcement-bytes, "16777216", --max-key-bytes, "4194304", --max-prepared-bytes, "4194304",
      --max-retained-bytes, "4194304"]
volumes:
  nats: {driver: local, driver_opts: {type: tmpfs, device: tmpfs, o: "size=192m,uid=UID,mode=0700"}}
  shuffler: {driver: local, driver_opts: {type: tmpfs, device: tmpfs, o: "size=64m,uid=UID,mode=0700"}}
  analyzer: {driver: local, driver_opts: {type: tmpfs, device: tmpfs, o: "size=64m,uid=UID,mode=0700"}}
  host1: {driver: local, driver_opts: {type: tmpfs, device: tmpfs, o: "size=64m,uid=UID,mode=0700"}}
  host2: {driver: local, driver_opts: {type: tmpfs, device: tmpfs, o: "size=64m,uid=UID,mode=0700"}}
`

// faulty is a deployment that faults are put to.
type faulty struct {
	*trial
	c      *faultCase
	tap    *tapControl
	holder string // the container that holds every state
	older  map[string]string
	newer  map[string]string // states in whose place older ones stand
	record *record
	// what came of cutting host1 off before its last reports
	detained chan error
}

func newFaulty(t *testing.T, name string) *faulty {
	x := &faulty{}
	x.tap = &tapControl{t: t, url: "http://127.0.0.1:" + freePorts(t, 1)[0]}
	x.trial = newTrialOf(t, name, strings.ReplaceAll(faultyYAML, "PORT:9000",
		strings.TrimPrefix(x.tap.url, "http://127.0.0.1:")+":9000"), map[string]string{
		"analyzer.yaml": faultAnalyzerYAML, "randomizer.yaml": faultRandomizerYAML, "shuffler.yaml": faultShufflerYAML})
	x.crowd.size = 2
	args := []string{"run", "-d", "--entrypoint", "/volume"}
	for _, service := range append(x.roles(), "nats") {
		args = append(args, "-v", x.project+"_"+service+":/"+service)
	}
	x.holder = strings.TrimSpace(x.must("docker", append(args, x.helper, "hold")...))
	t.Cleanup(func() { x.must("docker", "rm", "-f", x.holder) })
	x.record = loadRecord(t, x.keys())
	return x
}

// hold has the holder do something to a service's state.
func (x *faulty) hold(what, service string) {
	x.must("docker", "exec", x.holder, "/volume", what, "/"+service)
}

// setWrites has a role's process denied every write to a file, or allowed again. Only its own user may do so.
func (x *faulty) setWrites(what, service string) {
	x.must("docker", "run", "--rm", "--user", user()+":"+user(), "--pid", "container:"+x.id(service), x.helper, what,
		"/")
}

// keep copies a service's state, for setBack.
func (x *faulty) keep(service string) {
	if x.older == nil {
		x.older = map[string]string{}
	}
	x.older[service] = x.copyState(service)
}

func (x *faulty) copyState(service string) string {
	file := filepath.Join(x.dir, fmt.Sprintf("%s-%d.tar", service, time.Now().UnixNano()))
	x.must("sh", "-c", `docker exec "$0" /volume save "/$1" > "$2"`, x.holder, service, file)
	return file
}

func (x *faulty) loadState(service, file string) {
	x.must("sh", "-c", `docker exec -i "$0" /volume load "/$1" < "$2"`, x.holder, service, file)
	_ = os.Remove(file)
}

// setBack puts the copy in the place of the state of a service that does not run.
func (x *faulty) setBack(service string) {
	if x.newer == nil {
		x.newer = map[string]string{}
	}
	x.newer[service] = x.copyState(service)
	x.loadState(service, x.older[service])
}

// bringNewer brings back what setBack replaced, and starts those roles anew that do not come back by themselves.
func (x *faulty) bringNewer() {
	for service, file := range x.newer {
		x.must("docker", "kill", x.id(service))
		x.loadState(service, file)
		x.start(service)
	}
	if x.steady(20*time.Second) == nil {
		return
	}
	for _, role := range x.roles() {
		if !x.watch.last(role).ready {
			x.must("docker", "restart", "-t", "15", x.id(role))
			x.c.note("%s was started anew", role)
		}
	}
}

// late names the stop at which host1 is cut off in a case.
func (x *faulty) late() string { return fmt.Sprintf("late%d", x.cases) }

// tapStop is what the tap reads as a Stop.
type tapStop struct {
	ID, Link, Subject string
	ToRole, Answered  bool
	Nth               int
}

// tapControl commands the tap.
type tapControl struct {
	t   *testing.T
	url string
}

// ask gives a command, and post panics where it is not taken: run turns that into a violation.
func (c *tapControl) ask(path string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	answer, err := http.Post(c.url+path, "application/json", bytes.NewReader(text))
	if err != nil {
		return err
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("tap: %s: %s", path, answer.Status)
	}
	return nil
}

func (c *tapControl) post(path string, body any) {
	if err := c.ask(path, body); err != nil {
		panic(err)
	}
}

func (c *tapControl) arm(s tapStop) { c.post("/arm", s) }

func (c *tapControl) link(name, state string, delay time.Duration) {
	c.post("/link", tapLink{name, state, delay})
}

// tapLink is how a link is to be.
type tapLink struct {
	Link, State string
	Delay       time.Duration
}

func cutOff(name string) tapLink { return tapLink{Link: name, State: "cut"} }

// release lets a stopped link go on: drop ends it without the message, and twice carries the message twice.
func (c *tapControl) release(id string, drop, twice bool) {
	q := url.Values{"id": {id}}
	if drop {
		q.Set("drop", "1")
	}
	if twice {
		q.Set("twice", "1")
	}
	c.post("/release?"+q.Encode(), nil)
}

// wait waits until a stop's message has come.
func (c *tapControl) wait(ctx context.Context, id string, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/wait?id="+id, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// kept is what passed since.
func (c *tapControl) kept(from int) (all []tapKept, err error) {
	answer, err := http.Get(c.url + "/kept?from=" + strconv.Itoa(from))
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	return all, json.NewDecoder(answer.Body).Decode(&all)
}

// tapKept is what the tap writes as a Kept.
type tapKept struct {
	Link, Subject, Header string
	Payload               []byte
}

// since lists the roles that were not ready at some time after from, with what they said last of it.
func (w *watch) since(from time.Time) map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	said := map[string]string{}
	for service, all := range w.samples {
		for _, x := range all {
			if x.at.After(from) && !x.ready {
				said[service] = first(x.said)
			}
		}
	}
	return said
}
