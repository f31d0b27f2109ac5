package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// A log has enough decisions of every option for a prediction, or is refused, in the words in which riffle evaluate has
// no interval. Of 400 decisions an option that was played with a chance of 5 % is in about 20.
func TestALogIsEnoughForAPredictionOrRefused(t *testing.T) {
	logged := func(rows int, rare float64) string {
		draw, log := rand.New(rand.NewPCG(8, 3)), strings.Builder{}
		for range rows {
			arm, x, chance := 0, draw.Float64()-0.5, 1-rare
			if draw.Float64() < rare {
				arm, chance = 1, rare
			}
			reward := 0
			if (x > 0) == (arm == 0) {
				reward = 1
			}
			fmt.Fprintf(&log, `{"arms":[[%.3g,0],[0,%.3g]],"arm":%d,"reward":%d,"propensity":%g}`+"\n", x, x, arm, reward,
				chance)
		}
		return written(t, fmt.Sprintf("%d-%g.jsonl", rows, rare), log.String())
	}
	for _, c := range []struct {
		path string
		args []string
		want string
	}{
		{logged(400, 0.5), nil, "drawn from the log's 400 decisions"},
		{logged(400, 0.5), []string{"--effect", "0.1"}, "leave them out"},
		{logged(2, 0.5), nil, "at least 10 decisions are needed, the log has 2. Or leave --from-log out"},
		{logged(60, 0.5), nil, "decisions of the policy itself would, and intervals need 50"},
		{logged(400, 0.05), nil, "always playing arm 1, counted from 0, which"},
		{logged(400, 0), nil, "was never played in 400 decisions"},
	} {
		args := append([]string{"plan", "--users", "300", "--trust", "shares", "--from-log", c.path}, c.args...)
		out, _, err := execute(t, "", args...)
		text := strings.Join(strings.Fields(out), " ")
		if err != nil {
			text = err.Error()
		}
		if !strings.Contains(text, c.want) || (err == nil) != (out != "") {
			t.Errorf("%s: %v; %q is missing in\n%s", c.path, err, c.want, text)
		}
	}
}
