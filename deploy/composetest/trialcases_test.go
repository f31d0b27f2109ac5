package composetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
)

var bads = []bad{
	{"broker paused for 20 s while people enrol",
		"every slot that was given gets a report, a null report where the decision was lost", pausedBroker},
	{"shuffler paused past the deadline", "what waits at the broker is taken in first", pausedShuffler},
	{"50 000 junk reports of 200 bytes from one host", "the other host's reports are in time", junkReports},
	{"bodies of 4 MB at a randomizer: 8, then 200 clients for 5 s", "it goes on, with all rewards", largeBodies},
	{"shuffler's state restored from an older copy",
		"it says so and does nothing, or goes on; with the newer state it goes on", olderShuffler},
	{"broker's data restored from an older copy",
		"the roles say so and do nothing, or go on; with the newer data they go on", olderBroker},
	{"a host's store restored from an older copy, and the same five people again",
		"they are refused and the host says why; with the newer store it goes on", olderHost},
	{"a junk announcement with the analyzer's broker credential", "the analyzer names it, and there is a way on",
		junkAnnouncement},
}

// The full disk has a deployment of its own, whose broker keeps its streams in memory of a fixed size.
var fullDisk = bad{"broker's disk full for 16 s, then free again",
	"the broker says so, is restarted once there is room, and the cohort is kept", fullDiskCase}

const diskYAML = `
services:
  provision:
    command: [broker, provision, --keys, /keys, --broker-url, "tls://nats:4222", --broker-ca, /keys/ca.pem,
      --max-report-bytes, "33554432", --max-report-size, "16384", --max-host-reports, "1024",
      --max-mixed-bytes, "33554432", --max-audit-bytes, "16777216",
      --max-announcement-bytes, "16777216", --max-key-bytes, "4194304", --max-prepared-bytes, "4194304",
      --max-retained-bytes, "4194304"]
volumes:
  nats: {driver: local, driver_opts: {type: tmpfs, device: tmpfs, o: "size=192m,uid=UID,mode=0700"}}
`

// mustSay holds that roles said from a time on, within the patience, that they are not ready, until another time.
func (x *trial) mustSay(from, to time.Time, services ...string) {
	for _, service := range services {
		after, said, ok := x.watch.unready(service, from, to, sayWithin)
		if !ok {
			x.fault("%s was not ready and did not say so: %s", service, said)
			continue
		}
		x.say(service, said, after)
	}
}

func (x *trial) say(service, said string, after time.Duration) {
	x.row.notReady = append(x.row.notReady, saying{service, after, said})
}

func pausedBroker(x *trial) error {
	before := x.handedIn()
	x.crowd.pause = time.Second // people come while the broker is away
	defer func() { x.crowd.pause = 0 }()
	var from, to time.Time
	err := x.fill(func() {
		x.must("docker", "pause", x.id("nats"))
		from = time.Now()
		time.Sleep(20 * time.Second)
		to = time.Now()
		x.must("docker", "unpause", x.id("nats"))
	})
	if err != nil {
		return err
	}
	x.note("the people: %d sampled, others %v", x.crowd.reporters(x.epoch), x.crowd.missed)
	if err := x.close(before); err != nil {
		return err
	}
	x.mustSay(from, to, x.roles()...)
	return x.steady(30 * time.Second)
}

func pausedShuffler(x *trial) error {
	before := x.handedIn()
	if err := x.fill(nil); err != nil {
		return err
	}
	x.must("docker", "pause", x.id("shuffler"))
	from := time.Now()
	due := from.Add(trialRewardWindow + trialJitter + trialGrace + 3*time.Second)
	if err := x.handIn(time.Until(due)); err != nil {
		x.fault("%v", err)
	}
	x.row.reported = x.handedIn() - before
	time.Sleep(time.Until(due))
	to := time.Now()
	x.must("docker", "unpause", x.id("shuffler"))
	if err := x.close(before); err != nil {
		return err
	}
	x.mustSay(from, to, "shuffler")
	return x.steady(30 * time.Second)
}

// junkReports floods the broker as one would who has a host's key and no patience: without waiting for an answer to any
// report.
func junkReports(x *trial) error {
	const junk = 50_000
	hostile, subject, err := x.rawHost("host1")
	if err != nil {
		return err
	}
	defer hostile.Close()
	before := x.handedIn()
	all := x.crowd.apis
	x.crowd.apis = all[1:]
	defer func() { x.crowd.apis = all }()
	var flood error
	begin := time.Now()
	err = x.fill(func() {
		for range junk {
			m := nats.NewMsg(subject)
			m.Header.Set("Riffle-Round", fmt.Sprintf("%d.0", x.epoch))
			m.Data = make([]byte, 200)
			_, _ = rand.Read(m.Data)
			if flood = hostile.PublishMsg(m); flood != nil {
				return
			}
		}
		if flood = hostile.FlushTimeout(30 * time.Second); flood == nil {
			x.note("sent in %.1f s", time.Since(begin).Seconds())
		}
	})
	if err == nil {
		err = flood
	}
	if err != nil {
		return err
	}
	err = x.close(before)
	x.note("the cohort was done %.0f s after the flood began", time.Since(begin).Seconds())
	// The hostile host's own people may lose what they have to say while its junk takes up its places. It is forgotten
	// within seconds.
	time.Sleep(10 * time.Second)
	return err
}

// rawHost connects with a host's key past all of this program, and names the subject under which that host may report.
func (x *trial) rawHost(host string) (*nats.Conn, string, error) {
	key, err := nats.NkeyOptionFromSeed(filepath.Join(x.keys(), "randomizer-"+host, "nats.seed"))
	if err != nil {
		return nil, "", err
	}
	pem, err := os.ReadFile(filepath.Join(x.keys(), keyring.AuthorityFile))
	if err != nil {
		return nil, "", err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	c, err := nats.Connect(x.broker(), key, nats.Secure(&tls.Config{RootCAs: pool, ServerName: "nats"}))
	if err != nil {
		return nil, "", err
	}
	return c, bus.SubjectReport + "." + c.Opts.Nkey, nil
}

func largeBodies(x *trial) error {
	// Arms without end, in good JSON.
	body := []byte(`{"arms":[[` + strings.TrimSuffix(strings.Repeat("0.25,", 4<<20/5-10), ",") + `]]}`)
	var answers sync.Map
	post := func(ctx context.Context, client *http.Client, name string) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, x.apis[0]+"/v1/devices/"+name+"/decisions",
			bytes.NewReader(body))
		if err != nil {
			return
		}
		r.Header.Set("Content-Type", "application/json")
		said := "no answer"
		if answer, err := client.Do(r); err == nil {
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
			said = answer.Status
		}
		n, _ := answers.LoadOrStore(said, new(atomic.Int64))
		n.(*atomic.Int64).Add(1)
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 200}}
	before, restarts := x.handedIn(), x.restarts()["host1"]
	err := x.fill(func() {
		var eight sync.WaitGroup
		for i := range 8 {
			eight.Go(func() { post(x.ctx, client, fmt.Sprintf("%s-large-%d", x.crowd.name, i)) })
		}
		eight.Wait()
	})
	if err != nil {
		return err
	}
	if n := x.restarts()["host1"] - restarts; n > 0 {
		x.fault("eight bodies ended host1 %d times", n)
	}
	ctx, cancel := context.WithTimeout(x.ctx, 5*time.Second)
	var many sync.WaitGroup
	for i := range 200 {
		many.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				post(ctx, client, fmt.Sprintf("%s-many-%d-%d", x.crowd.name, i, n))
			}
		})
	}
	many.Wait()
	cancel()
	said := map[string]int64{}
	answers.Range(func(k, v any) bool { said[k.(string)] = v.(*atomic.Int64).Load(); return true })
	x.note("answers: %v", said)
	err = x.close(before)
	if n := x.restarts()["host1"] - restarts; n > 0 {
		x.fault("host1 ended %d times, each with all rewards that it held", n)
	}
	return err
}

func junkAnnouncement(x *trial) error {
	hostile, err := x.connect(x.ctx, x.broker(), bus.Analyzer)
	if err != nil {
		return err
	}
	defer hostile.Close()
	before := x.handedIn()
	junk := make([]byte, 300)
	_, _ = rand.Read(junk)
	var put error
	err = x.fill(func() {
		ctx, cancel := context.WithTimeout(x.ctx, 10*time.Second)
		defer cancel()
		put = hostile.Announcements.PutAnnouncement(ctx, x.epoch+1, 0, junk)
	})
	if err == nil {
		err = put
	}
	if err != nil {
		return err
	}
	if err := x.close(before); err != nil {
		return err
	}
	begin := time.Now()
	why, said := x.settledTrouble(30 * time.Second)
	if !said {
		return nil // the next cohort shows whether it goes on
	}
	for _, w := range why {
		x.say(w.who, w.why, time.Since(begin))
	}
	return nil
}

func fullDiskCase(x *trial) error {
	holder := strings.TrimSpace(x.must("docker", "run", "-d", "-v", x.project+"_nats:/data",
		x.helper, "hold"))
	defer x.must("docker", "rm", "-f", holder)
	before, restarts := x.handedIn(), x.restarts()["nats"]
	var from, to time.Time
	err := x.fill(func() {
		x.must("docker", "exec", holder, "/volume", "fill", "/data")
		from = time.Now()
	})
	if err != nil {
		return err
	}
	said := false
	for time.Since(from) < 16*time.Second {
		if health, words := x.health("nats"); health == "unhealthy" && !said {
			x.say("broker", words, time.Since(from))
			said = true
		}
		time.Sleep(500 * time.Millisecond)
	}
	to = time.Now()
	x.must("docker", "exec", holder, "/volume", "free", "/data")
	if !said {
		x.fault("the broker's container was not said to be unhealthy while its disk was full")
	}
	if err := x.close(before); err != nil {
		return err
	}
	if n := x.restarts()["nats"] - restarts; n == 0 {
		x.note("the broker was not restarted")
	}
	// The hosts have reports that the broker does not take: from the time on when they fall due.
	due := from.Add(trialRewardWindow + trialJitter)
	for _, host := range []string{"host1", "host2"} {
		if after, why, ok := x.watch.unready(host, due, to, 11*time.Second); ok {
			x.say(host, why, after)
		} else {
			x.fault("%s could not hand in its reports and did not say so: %s", host, why)
		}
	}
	return x.steady(30 * time.Second)
}

// wrongReleases lists the epochs that the shuffler's page shows as destroyed and the log as released.
func (x *trial) wrongReleases() (wrong []uint64) {
	client := http.Client{Timeout: 2 * time.Second}
	answer, err := client.Get(x.ops["shuffler"] + "/status.json")
	if err != nil {
		return nil
	}
	defer answer.Body.Close()
	var v struct {
		Releases []struct {
			Epoch   uint64
			Outcome string
		}
	}
	if json.NewDecoder(answer.Body).Decode(&v) != nil {
		return nil
	}
	for _, r := range v.Releases {
		if m, err := x.manifest(r.Epoch); err == nil && m != nil && r.Outcome != outcomeOf(m) {
			wrong = append(wrong, r.Epoch)
		}
	}
	return wrong
}
