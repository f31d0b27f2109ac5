package device

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

var update = flag.Bool("update", false, "write the golden vectors anew; a changed vector is a changed device")

// vector is a device's life in a channel, with all randomness from one seed: what it is given, and what it makes of
// that, to the byte. Every form of the device must make the same: this test on each platform, and the C library and the
// wasm in programs of those languages (cmd/libriffle).
type vector struct {
	Channel plan.Channel   `json:"channel"`
	Asks    statistic.Kind `json:"asks,omitempty"` // of a panel that is asked a question; empty: who arrives
	Config  struct {
		Deployment string `json:"deployment"`
		Number     uint32 `json:"number"`
		Analyzer   []byte `json:"analyzer"`
		Shuffler   []byte `json:"shuffler"`
		Identity   []byte `json:"identity"`
		Credential []byte `json:"credential"`
		Limits     Limits `json:"limits"`
	} `json:"config"`
	Announcement []byte `json:"announcement"`
	Keys         []byte `json:"keys"`
	// Of a panel: the device's sealed request to be registered, and the reply.
	Registration []byte          `json:"registration,omitempty"`
	Confirmed    []byte          `json:"confirmed,omitempty"`
	Request      []byte          `json:"request"` // sealed
	Reply        []byte          `json:"reply"`   // sealed
	Answer       json.RawMessage `json:"answer"`
	Arms         [][]float64     `json:"arms"`
	Decision     json.RawMessage `json:"decision"`
	// Record is the SHA-256 of the record in what is saved after the decision, by which the device opens again. What is
	// saved beside it has the guarantee, which platforms round differently.
	Record  string  `json:"record"`
	Reward  float64 `json:"reward"`
	Report  string  `json:"report"`  // SHA-256 of the sealed report, hexadecimal
	Epsilon float64 `json:"epsilon"` // that the plan comes to by the device's computation
}

// vectorSeed is what SetGlobalRandom is given before each life.
const vectorSeed = 7

// agreement is how far the guarantee may be from the vector's, relatively: platforms round differently (plan.Slack).
const agreement = 1e-11

// One seed gives the same requests, decisions and reports on every platform, sealed bytes and all, and the same
// guarantee but for rounding.
func TestGoldenVectors(t *testing.T) {
	f := newFixture(t)
	file := filepath.Join("testdata", "vectors.json")
	var all []vector
	if *update {
		for _, c := range plan.Channels() {
			all = append(all, f.vector(c, ""))
		}
		all = append(all, f.vector(plan.Shuffle, statistic.Mean), f.vector(plan.Shares, statistic.Histogram),
			f.vector(plan.Local, statistic.Fit))
	} else if err := json.Unmarshal(must(os.ReadFile(file)), &all); err != nil || len(all) != len(plan.Channels())+3 {
		t.Fatal(len(all), err)
	}
	for i, v := range all {
		made := f.live(t, v)
		if *update {
			all[i] = made
			continue
		}
		for what, of := range map[string][2][]byte{
			"registration": {v.Registration, made.Registration},
			"request":      {v.Request, made.Request}, "answer": {compact(v.Answer), made.Answer},
			"decision": {compact(v.Decision), made.Decision}, "report": {[]byte(v.Report), []byte(made.Report)},
			"record": {[]byte(v.Record), []byte(made.Record)},
		} {
			if !bytes.Equal(of[0], of[1]) {
				t.Errorf("%s: the %s is\n%s\nand was\n%s", v.Channel, what, of[1], of[0])
			}
		}
		off := math.Abs(made.Epsilon/v.Epsilon - 1)
		if t.Logf("%s: epsilon %v, off by %.1g", v.Channel, made.Epsilon, off); !(off <= agreement) {
			t.Errorf("%s: epsilon %v, and it was %v", v.Channel, made.Epsilon, v.Epsilon)
		}
	}
	if *update {
		b := append(must(json.MarshalIndent(all, "", "\t")), '\n')
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func compact(b []byte) []byte {
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// vector is what a device of the channel is given.
func (f *fixture) vector(channel plan.Channel, asks statistic.Kind) (v vector) {
	c := f.everywhere()
	v.Channel, v.Arms, v.Reward = channel, [][]float64{{0.6, 0.2}, {-0.3, 0.5}, {0.1, -0.7}}, 0.75
	v.Config.Deployment, v.Config.Number, v.Config.Analyzer, v.Config.Shuffler = c.Deployment, 3, c.Analyzer, c.Shuffler
	v.Config.Identity, v.Config.Credential, v.Config.Limits = f.identity.Bytes(), c.Credential, c.Limits
	v.Announcement = f.announce(through(f.announcement(glm.Practical), channel))
	if v.Asks = asks; asks != "" {
		_, q := aQuestion()
		if asks == statistic.Histogram {
			q.Of, q.Edges = q.Of[:1], []float64{-0.5, 0.25}
		}
		v.Announcement = f.announce(f.ask(channel, 12, asks, q))
		v.Config.Limits.Epsilon, v.Config.Limits.Records = 100, 0
	}
	v.Keys = f.keys(1, f.shufflerKey)
	return v
}

// live has a device live a vector's life.
func (f *fixture) live(t *testing.T, v vector) vector {
	t.Helper()
	cryptotest.SetGlobalRandom(t, vectorSeed)
	c := Config{
		Deployment: v.Config.Deployment, Analyzer: v.Config.Analyzer, Shuffler: v.Config.Shuffler,
		Identity: must(seal.NewIdentity(v.Config.Identity)), Credential: v.Config.Credential, Limits: v.Config.Limits,
	}
	d := must(Open(c, v.Config.Number, nil))
	must(d.Follow(v.Announcement, start))
	if err := d.Keys(v.Keys); err != nil {
		t.Fatal(err)
	}
	if d.last.Panels() {
		if v.Registration = must(d.Register()); v.Confirmed == nil { // as for Reply
			v.Confirmed = f.reply(v.Registration, wire.EnrolReply{Enrolled: true})
			return f.live(t, v)
		}
		if refusal, again, err := d.Registered(v.Confirmed); refusal != "" || again || err != nil {
			t.Fatal(refusal, again, err)
		}
	}
	v.Request = must(d.Enrol(start))
	if v.Reply == nil { // the shuffler's randomness is not the device's, which begins anew
		reply := f.committed(d.last.Announcement)
		if d.last.Panels() {
			reply.Pool, reply.Draw = f.statements(d.last.Announcement, true, nil)
		}
		v.Reply = f.reply(v.Request, reply)
		return f.live(t, v)
	}
	v.Answer = must(json.Marshal(must(d.Answer(v.Reply, start))))
	v.Decision = must(json.Marshal(must(d.Decide(v.Arms, entropy.New()))))
	save := must(d.Save())
	sum := sha256.Sum256(d.kept.Record)
	v.Record = hex.EncodeToString(sum[:])
	d = must(Open(c, v.Config.Number, save))
	must(d.Reward(decision(d), v.Reward, start.Add(time.Second)))
	sum = sha256.Sum256(must(d.Report(start.Add(time.Minute))))
	v.Report, v.Epsilon = hex.EncodeToString(sum[:]), d.Status().Epsilon
	return v
}
