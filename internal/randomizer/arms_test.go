package randomizer

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/randomizer/api"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/client"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/glm"
)

// twoNumbers is a schema for the test bed's policies, which have two dimensions, in its canonical form.
const twoNumbers = `{"version":1,"context":[{"name":"age","kind":"number","low":0,"high":100}],` +
	`"arms":[{"name":"cost","kind":"number","low":0,"high":10},{"name":"push","kind":"flag"}],` +
	`"terms":[["cost"],["age","push"]],` +
	`"limits":[{"arm":"call","at_most":2}]}`

const threeArms = `{"context": {"age": 31}, ` +
	`"arms": [{"id": "none", "cost": 0}, {"id": "sms", "cost": 1}, {"id": "call"}]}`

// also is threeArms with further keys.
func also(keys string) string { return "{" + keys + ", " + threeArms[1:] }

// An app that sends features gets the id of the arm, and the device reports what the encoded vectors say. What the app
// excludes is never played; errors say what to do and name no value; every device reports all the same.
func TestDecisionsAboutFeatures(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.unhurried(40)
	a.Schema = []byte(twoNumbers)
	s.open(a)
	d := s.decide("a", threeArms)
	ids := []any{"none", "sms", "call"}
	if d["sampled"] != true || d["id"] != ids[int(d["arm"].(float64))] {
		t.Errorf("%v", d)
	}
	if status, schema := s.get("/v1/schema"); status != 200 || schema["version"] != 1. || len(schema) != 5 {
		t.Errorf("schema: %d %v", status, schema)
	}
	for range 20 {
		if d := s.decide("b", also(`"exclude": ["none", 2]`)); d["id"] != "sms" ||
			d["propensity"] != 1. || d["arm"] != 1. {
			t.Fatalf("%v", d)
		}
	}
	for name, c := range map[string]struct{ body, detail string }{
		"vectors":           {twoArms, "announces a schema of features (GET /v1/schema): send"},
		"unknown feature":   {`{"context": {"agee": 0.123456}, "arms": []}`, `the context has the field "agee"`},
		"strange feature":   {`{"context": {"0.123456": 1}, "arms": []}`, "whose name no schema can have"},
		"arm's in context":  {`{"context": {"cost": 0.123456}, "arms": []}`, "belongs to the arms"},
		"context's in arm":  {`{"arms": [{"id": "none", "age": 0.123456}]}`, "belongs to the context"},
		"twice":             {`{"arms": [{"id": "none", "cost": 0.123456, "cost": 1}]}`, `"cost" comes twice`},
		"id twice":          {`{"arms": [{"id": "123456", "id": "none"}]}`, `"id" comes twice`},
		"same ids":          {`{"arms": [{"id": "123456"}, {"id": "123456"}]}`, `arm 1: its "id" must be`},
		"no id":             {`{"arms": [{"cost": 0.123456}]}`, `arm 0: its "id" must be`},
		"id no text":        {`{"arms": [{"id": 123456}]}`, `arm 0: its "id" must be a text`},
		"wrong kind":        {`{"arms": [{"id": "none", "cost": "123456"}]}`, `"cost" must be a finite number`},
		"nested":            {`{"arms": [{"id": "none", "cost": {"a": 123456}}]}`, `"cost" must be a number, a text`},
		"overflow":          {`{"arms": [{"id": "none", "cost": 123456e999}]}`, `"cost" must be in the range`},
		"no object":         {`{"arms": ["123456"]}`, "must be objects"},
		"context no object": {`{"context": [123456], "arms": []}`, "must be objects"},
		"context twice":     {`{"context": {}, "context": {"age": 123456}, "arms": []}`, "comes twice"},
		"no arms":           {`{"context": {"age": 12.3456}}`, "this one has 0"},
		"default":           {also(`"default": "letter123456"`), `"default" names no arm`},
		"default index":     {also(`"default": 3`), `"default" names no arm`},
		"default fraction":  {also(`"default": 0.123456`), `"default" names no arm`},
		"default negative":  {also(`"default": -1`), `"default" names no arm`},
		"default list":      {also(`"default": [1]`), `"default" must be`},
		"exclude":           {also(`"exclude": ["123456"]`), `"exclude" names no arm`},
		"exclude nested":    {also(`"exclude": [{"123456": 1}]`), `"exclude" must be a list`},
		"exclude no list":   {also(`"exclude": "sms"`), `"exclude" must be a list`},
		"exclude all":       {also(`"exclude": [0, 1, 2]`), "excluded"},
		"unknown":           {also(`"contexts": {}`), "unknown field"},
		"too many arms":     {`{"arms": [` + strings.Repeat(`{"id": "a"},`, 1024) + `{}]}`, "more than 1024 arms"},
		"too long":          {threeArms + strings.Repeat(" ", 512<<10), "too large"},
	} {
		status, answer := s.post("/v1/devices/"+strings.ReplaceAll(name, " ", "-")+"/decisions", c.body)
		detail, _ := answer["detail"].(string)
		if status != http.StatusUnprocessableEntity && status != http.StatusRequestEntityTooLarge ||
			!strings.Contains(detail, c.detail) {
			t.Errorf("%s: %d %v, want %q", name, status, answer, c.detail)
		}
		if strings.Contains(detail, "123456") || strings.Contains(detail, "12.3456") {
			t.Errorf("%s: the answer names a value: %s", name, detail)
		}
	}
	s.due(a)
	s.reports(2 + 29)
	// Nothing of it is in the log, nor on the host's disk.
	marks := testbed.Marks(0.123456)
	for _, text := range []string{"123456", "sms", "agee", "letter"} {
		if strings.Contains(s.logged.String(), text) {
			t.Errorf("the log has %q", text)
		}
	}
	if found, files := testbed.FindInFolder(t, s.config.StateDir, marks); len(found) > 0 || files == 0 {
		t.Errorf("on disk: %v in %d files", found, files)
	}
}

// Without a schema an app sends vectors, and may say which is played today and which must not be; features are refused
// with what to send.
func TestDecisionsBetweenVectors(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.unhurried(40)
	s.open(a)
	for range 20 {
		d := s.decide("a", `{"default": 1, "exclude": [0], "arms": [[0.6, 0.2], [-0.3, 0.5]]}`)
		if _, id := d["id"]; id || d["arm"] != 1. || d["propensity"] != 1. {
			t.Fatalf("%v", d)
		}
		if _, scaled := d["scaled_arms"]; scaled {
			t.Fatalf("no arm is longer than 1, and the answer says: %v", d)
		}
	}
	if d := s.decide("a", `{"arms": [[3, 4], [-0.3, 0.5], [0, -2]]}`); d["scaled_arms"] != 2. {
		t.Errorf("two of three arms are longer than 1, and the answer says: %v", d)
	}
	if status, _ := s.get("/v1/schema"); status != http.StatusNotFound {
		t.Errorf("a schema is shown: %d", status)
	}
	for name, body := range map[string]string{
		"b": `{"arms": [{"id": "none"}]}`, "c": `{"context": {"age": 0.123456}, "arms": [[1, 0]]}`,
	} {
		status, answer := s.post("/v1/devices/"+name+"/decisions", body)
		if detail, _ := answer["detail"].(string); status != http.StatusUnprocessableEntity ||
			!strings.Contains(detail, "announces no schema of features: send") || strings.Contains(detail, "123456") {
			t.Errorf("%s: %d %v", body, status, answer)
		}
	}
	for name, body := range map[string]string{
		"d": `{"default": "none", "arms": [[1, 0]]}`, "e": `{"exclude": ["none"], "arms": [[1, 0]]}`,
		"f": `{"exclude": [1], "arms": [[1, 0]]}`,
	} {
		status, answer := s.post("/v1/devices/"+name+"/decisions", body)
		if detail, _ := answer["detail"].(string); status != http.StatusUnprocessableEntity ||
			!strings.Contains(detail, "names no arm of this decision") {
			t.Errorf("%s: %d %v", body, status, answer)
		}
	}
	s.due(a)
	s.reports(6)
}

// The client asks about features as the API takes them, and reads the schema.
func TestClientAsksAboutFeatures(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.unhurried(12)
	a.Schema = []byte(twoNumbers)
	s.open(a)
	c, at, ctx := client.New(client.Options{GiveUp: -1}), client.At(s.api.URL), t.Context()
	defer c.Close()
	ask := client.Request{
		Context: map[string]any{"age": 31}, Default: 2, Exclude: []int{0, 2},
		Arms: []client.Arm{{ID: "none"}, {ID: "sms", Features: map[string]any{"cost": 0.5}}, {ID: "call"}},
	}
	if d, _, err := c.DecideAmong(ctx, at, "a", ask); err != nil || d.ID != "sms" || d.Arm != 1 || !d.Sampled {
		t.Errorf("%+v, %v", d, err)
	}
	if schema, err := c.Schema(ctx, at); err != nil || !bytes.Equal(bytes.TrimSpace(schema), a.Schema) {
		t.Errorf("%s, %v", schema, err)
	}
	vectors := client.Request{Vectors: [][]float64{{1, 0}}}
	if _, _, err := c.DecideAmong(ctx, at, "b", vectors); !errors.Is(err, client.BadArms) {
		t.Error(err)
	}
	s.due(a)
	s.reports(2)
}

// A device plays a limited arm as often as the schema says in an epoch, also if many ask at once; another device and
// another epoch begin anew, and an epoch that is over is not counted.
func TestLimitsOfArms(t *testing.T) {
	schema, err := feature.Open([]byte(twoNumbers))
	if err != nil {
		t.Fatal(err)
	}
	bed := testbed.New(t)
	a := &device.Announced{Announcement: bed.Announcement(glm.Practical, 12), Features: schema}
	set := api.Arms{Vectors: [][]float64{{0, 0.1}, {1, 0}}, IDs: []string{"none", "call"}, Choice: glm.Choice{}}
	p := newPlayed()
	p.begin(a.Epoch)
	calls := func(s string, a *device.Announced) (n int) {
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				src := rand.New(rand.NewPCG(1, uint64(i)))
				for range 25 {
					made, err := p.decide(s, a, set, src)
					mu.Lock()
					if err != nil {
						t.Error(err)
					} else if made.Arm == 1 {
						n++
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		return n
	}
	first, second := "first", "second"
	// Without the limit each of 100 decisions plays the arm with probability 1/2 or more: fewer than 3 never happen.
	if x, y := calls(first, a), calls(second, a); x != 2 || y != 2 {
		t.Errorf("played %d and %d times", x, y)
	}
	later := *a
	later.Announcement = a.Clone()
	later.Epoch++
	p.begin(later.Epoch)
	if x, y := calls(first, &later), calls(first, a); x != 2 || y < 3 {
		t.Errorf("in the next epoch %d times, in the one that is over %d", x, y)
	}
	if n := len(p.open().times); n != 1 {
		t.Errorf("%d devices are remembered of the epoch that is over", n)
	}
	if text := fmt.Sprintf("%v %+v %#v", p, p, p); strings.Contains(text, "call") {
		t.Errorf("what was played can be printed: %s", text)
	}
	// Of decisions that saw the same counts and were made at once, no more than the limit allows may be kept.
	kept := 0
	for range 3 {
		if p.open().take(play{3, "call"}, &later) {
			kept++
		}
	}
	if kept != 2 {
		t.Errorf("%d of 3 decisions are kept", kept)
	}
	only := api.Arms{Vectors: set.Vectors[1:], IDs: set.IDs[1:]}
	if _, err := p.decide(first, &later, only, rand.New(rand.NewPCG(1, 2))); !errors.Is(err, glm.ErrNoArms) {
		t.Errorf("an arm is played beyond its limit, or the error is %v", err)
	}
	// An app may make up names. Where no more are counted, those that are keep their counts, and others play no limited
	// arm.
	counted := p.open()
	counted.most = len(counted.times) + 1
	if x, y := calls("new", &later), calls("one too many", &later); x != 2 || y != 0 ||
		len(counted.times) != counted.most {
		t.Errorf("played %d and %d times, %d devices are counted of at most %d", x, y, len(counted.times), counted.most)
	}
	if most, limited := schema.AtMost("none"); limited {
		t.Error(most)
	}
}

// oftenCall asks about two arms that a policy which knows nothing plays with probability 1/2 each.
const oftenCall = `{"context": {"age": 100}, "arms": [{"id": "none", "cost": 10}, {"id": "call", "push": true}]}`

const callFirst = `{"context": {"age": 100}, "arms": [{"id": "call", "push": true}, {"id": "none", "cost": 10}]}`

// Through the API a device plays a limited arm so often in an epoch, and the next epoch forgets it.
func TestLimitsOfArmsThroughTheAPI(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.Announcement(glm.Practical, 12)
	a.Schema, a.Timing.RewardWindow = []byte(twoNumbers), time.Second
	digest := s.open(a)
	calls := func() (n int) {
		for range 40 { // without the limit, fewer than 3 calls have probability below 1e-8
			if d := s.decide("a", oftenCall); d["id"] == "call" {
				n++
			}
		}
		return n
	}
	if n := calls(); n != 2 {
		t.Errorf("the arm is played %d times", n)
	}
	s.reports(1)
	b := a.Clone()
	b.Epoch, b.Previous = 2, digest[:]
	s.open(b)
	if n := calls(); n != 2 {
		t.Errorf("in the next epoch the arm is played %d times", n)
	}
}

// Where panels are drawn it is the same: decisions about features are kept for the report, and limits hold for all of
// them together, kept or not. Decisions that are not kept explore nothing: before anything is known they play the first
// arm.
func TestFeaturesWherePanelsAreDrawn(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	p := ofPanels(s)
	p.schema = []byte(twoNumbers)
	s.start()
	a := p.next(testbed.Long)
	in := p.name("in")
	calls, kept := 0, 0
	decide := func(times int) {
		for range times {
			d := s.decide("in", callFirst)
			if d["id"] == "call" {
				calls++
			}
			if d["sampled"] == true {
				kept++
			}
		}
	}
	decide(2)
	p.drawNow(a, in)
	p.awaitDraw(1)
	decide(40)
	if calls != 2 || kept != panelDecisions {
		t.Errorf("%d calls, %d decisions are kept", calls, kept)
	}
	if status, answer := s.post("/v1/devices/in/decisions", twoArms); status != http.StatusUnprocessableEntity {
		t.Errorf("%d %v", status, answer)
	}
	s.due(a)
	s.reports(1)
}
