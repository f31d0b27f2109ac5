package planner

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/plan"
)

// Ten options of ten numbers plan by default, within what hosts send and a report of shares may hold, where a hundred
// dimensions of any arm do not.
func TestTenOptionsOfTenNumbersHaveAPlan(t *testing.T) {
	o := defaults()
	o.Dimension, o.Choices, o.Context, o.Cohorts = 0, 10, 10, []int{1000}
	r, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	if n := r.Cohorts[0].Releases; r.Dimension != 100 || n[0].Coordinates != 550 || n[1].Coordinates != 100 {
		t.Errorf("dimension %d, releases %+v", r.Dimension, n)
	}
	if r.MessagesPerUser > 5000 || r.MessageLimit != 4875 || r.HostMessages != 0 || !(r.Epsilon <= 1) {
		t.Errorf("%d of %d messages, hosts send %d, epsilon %v", r.MessagesPerUser, r.MessageLimit, r.HostMessages,
			r.Epsilon)
	}
	for _, c := range r.Channels {
		if c.Trust == plan.Shares && (c.Infeasible != "" || c.Bytes > 60_000 || !(*c.VarianceRatio < 1)) {
			t.Errorf("shares: %s, %d bytes, noise ratio %v", c.Infeasible, c.Bytes, *c.VarianceRatio)
		}
	}
	b, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(b), `"options":10,"context":10`) {
		t.Errorf("%v, JSON %.300s", err, b)
	}
	var table strings.Builder
	if err := r.WriteTable(&table); err != nil || !strings.Contains(table.String(),
		"dimension 100: 10 options, each with its own 10 weights") {
		t.Errorf("%v, %.300s", err, table.String())
	}
}

func TestPanelsOfOptions(t *testing.T) {
	o := PanelOptions{Options: defaults(), Size: 500}
	o.Dimension, o.Choices, o.Context, o.Registered, o.Records, o.Channel = 0, 3, 5, 5000, 1, plan.Shares
	r, err := RunPanel(o)
	if err != nil || r.Dimension != 15 || r.Options != 3 || r.Context != 5 || r.Releases[0].Coordinates != 45 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestOptionsThatAreNoneAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"one option":     func(o *Options) { o.Choices, o.Context = 1, 5 },
		"no context":     func(o *Options) { o.Choices = 3 },
		"only a context": func(o *Options) { o.Context = 3 },
		"negative":       func(o *Options) { o.Choices, o.Context = -2, -3 },
		"too many":       func(o *Options) { o.Choices, o.Context = 103, 5 },
		"a dimension":    func(o *Options) { o.Choices, o.Context, o.Dimension = 3, 5, 15 },
		"of vectors":     func(o *Options) { o.Choices, o.Context, o.Releases = 3, 5, 1 },
	} {
		o := defaults()
		o.Dimension = 0
		change(&o)
		if _, err := Run(o); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), "--options") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
