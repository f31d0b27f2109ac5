package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A log whose option 0 always earns 1 and option 1 nothing, played at random: the last policies of a replay are worth
// more than what was played, within the noise of epsilon 10; the table, the picture and the JSON say so, and whom the
// figures are for.
func TestALogIsReplayed(t *testing.T) {
	draw, log := rand.New(rand.NewPCG(29, 2)), strings.Builder{}
	for range 700 {
		arm := draw.IntN(2)
		fmt.Fprintf(&log, `{"arms": [[1, 0], [0, 1]], "arm": %d, "reward": %d, "propensity": 0.5}`+"\n", arm, 1-arm)
	}
	path, picture := written(t, "log.jsonl", log.String()), filepath.Join(t.TempDir(), "replay.svg")
	run := func(args ...string) string {
		t.Helper()
		out, said, err := execute(t, "", append([]string{"replay", path, "--epsilon", "10", "--rounds", "5", "--trust",
			"central"}, args...)...)
		if err != nil || !strings.Contains(said, "replaying") {
			t.Fatalf("%v\n%s", err, said)
		}
		return out
	}
	text := run("--out", picture)
	for _, want := range []string{"as many as a run accepts of 700 decisions", "central", "without privacy",
		"what was played", "uniform play", "[",
		"more than what was played, by the interval of the last column: central.",
		"effective", "they are for those who hold the log", "Picture: " + picture} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if drawn, err := os.ReadFile(picture); err != nil || !bytes.Contains(drawn, []byte("last policy")) {
		t.Errorf("the picture: %v", err)
	}
	var r struct {
		People   int
		Runs     int
		Channels []struct {
			Trust string
			Last  struct{ Value float64 } `json:"last_policy"`
		}
	}
	if err := json.Unmarshal([]byte(run("--json")), &r); err != nil || r.People < 150 || r.People > 233 ||
		r.Runs != 15 || len(r.Channels) != 1 || r.Channels[0].Last.Value < 0.9 {
		t.Errorf("%+v, %v", r, err)
	}
}
