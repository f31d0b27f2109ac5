package status_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/role/status"
	"github.com/riffle-dp/riffle/internal/testing/browser"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

const tooLate outcome.Reason = "too_late"

func ptr[T any](v T) *T { return &v }

// busy is a shuffler in the middle of its work, with every kind of thing that the page shows.
var busy = status.Snapshot{
	Deployment: "clinic", Epoch: 3, Epochs: 5, Round: 1, Rounds: 4,
	Cohort: &status.Cohort{Size: 1600, Minimum: 1520, Enrolled: ptr(1600), Reports: ptr(1234), Messages: 147,
		Deadline: ptr(time.Now().Add(250 * time.Second).UTC().Truncate(time.Millisecond)), Waiting: ptr(1310)},
	Budget: &status.Budget{Epsilon: 0.99890949, Delta: 1e-6, Spent: ptr(privacy.Epsilon(0.97339859))},
	Releases: []status.Round{
		{Epoch: 1, Outcome: status.Released, Enrolled: ptr(400), Reports: 398, Messages: 398 * 150,
			Epsilon: 0.97339859},
		{Epoch: 2, Outcome: status.Destroyed, Enrolled: ptr(800), Reports: 12},
		{Epoch: 3, Outcome: status.Released, Enrolled: ptr(1600), Reports: 1590, Messages: 1590 * 147,
			Epsilon: 0.96100000001},
	},
	Warnings: []string{
		"Host 6f1c2a90 holds 1,204 of the cohort's 1,600 slots: with m more than counted, the guarantee is weaker. " +
			"Look at who runs it.",
		"<i>not slanted</i> & \"plain\"",
	},
}

// serve runs a role's ops listener with this snapshot and some accounts, and returns its address.
func serve(t *testing.T, name string, snapshot status.Snapshot) (string, *role.Env) {
	t.Helper()
	settings := role.DefaultSettings("127.0.0.1:0")
	env, err := role.NewEnv(name, settings, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	held := int64(1234)
	reports, err := outcome.New(env.Metrics, name, "report", func() int64 { return held }, outcome.Reason("late"),
		tooLate)
	if err != nil {
		t.Fatal(err)
	}
	env.Account(reports)
	reports.Received(3300)
	reports.Released(1988)
	reports.Refused(tooLate, 66)
	reports.Refused(outcome.Reason("late"), 12)
	reports.Retried(tooLate)
	if err := status.Mount(env, func() status.Snapshot { return snapshot }); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- env.Run(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for env.OpsAddr() == "" {
		time.Sleep(time.Millisecond)
	}
	return "http://" + env.OpsAddr(), env
}

func get(t *testing.T, url string) (*http.Response, string) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r, string(b)
}

func TestJSONIsTheSnapshot(t *testing.T) {
	base, _ := serve(t, "shuffler", busy)
	_, body := get(t, base+"/status.json")
	var v status.View
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatal(err)
	}
	if v.Role != "shuffler" || !v.Ready || v.Epoch != 3 || *v.Cohort.Enrolled != 1600 || len(v.Releases) != 3 ||
		*v.Budget.Spent != *busy.Budget.Spent {
		t.Errorf("%s", body)
	}
	a := v.Accounts[0]
	if a.Received != 3300 || a.Released != 1988 || a.Refused != 78 || a.Pending != 1234 || a.Unaccounted != 0 ||
		a.Reasons["too_late"] != 66 || a.Retries["too_late"] != 1 {
		t.Errorf("%+v", a)
	}
	if a.PerSecond != nil {
		t.Error("a rate from a single look")
	}
	time.Sleep(600 * time.Millisecond)
	_, body = get(t, base+"/status.json")
	if err := json.Unmarshal([]byte(body), &v); err != nil || v.Accounts[0].PerSecond == nil ||
		*v.Accounts[0].PerSecond != 0 {
		t.Errorf("no rate from two looks: %s", body)
	}
}

func TestNoGuaranteeIsNotShownAsNone(t *testing.T) {
	b, err := json.Marshal(status.Budget{Epsilon: privacy.Epsilon(math.Inf(1))})
	if err != nil || !strings.Contains(string(b), `"epsilon":null`) {
		t.Errorf("%s %v", b, err)
	}
	var back status.Budget
	if err := json.Unmarshal(b, &back); err != nil || !math.IsInf(float64(back.Epsilon), 1) {
		t.Errorf("%v %v", back, err)
	}
}

func TestGaugesShowTheSnapshot(t *testing.T) {
	compared := busy
	compared.Learned = &status.Learned{Total: lasting().Learned.Total}
	_, env := serve(t, "shuffler", compared)
	want := map[string]float64{
		"riffle_epoch": 3, "riffle_round": 1, "riffle_final": 0, "riffle_cohort_size": 1600,
		"riffle_cohort_minimum": 1520, "riffle_cohort_enrolled": 1600,
		"riffle_cohort_reports": 1234, "riffle_report_messages": 147,
		"riffle_plan_epsilon": 0.99890949, "riffle_plan_delta": 1e-6,
		"riffle_spent_epsilon": 0.97339859, "riffle_last_release_epsilon": 0.96100000001,
		"riffle_reports_waiting": 1310, "riffle_warnings": 2,
		"riffle_cohort_deadline_seconds": float64(busy.Cohort.Deadline.UnixMilli()) / 1000,
		"riffle_last_release_reports":    1590,
		"riffle_lift":                    0.08, "riffle_lift_low": 0.0525, "riffle_lift_high": 0.111,
	}
	families, err := env.Metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if v, ok := want[f.GetName()]; ok {
			if got := f.Metric[0].GetGauge().GetValue(); got != v {
				t.Errorf("%s is %v, want %v", f.GetName(), got, v)
			}
			delete(want, f.GetName())
		}
		if f.GetName() == "riffle_rounds_total" && len(f.Metric) != 3 {
			t.Errorf("%v", f)
		}
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
	if problems, err := testutil.GatherAndLint(env.Metrics, "riffle_epoch", "riffle_rounds_total",
		"riffle_cohort_size", "riffle_plan_epsilon"); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

// The page may neither fetch nor run anything from elsewhere.
func TestPageStandsAlone(t *testing.T) {
	base, _ := serve(t, "shuffler", busy)
	r, body := get(t, base+"/")
	if csp := r.Header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none';") {
		t.Errorf("policy %q", csp)
	}
	for _, bad := range []string{"http://", "https://", "//cdn", "<script src", "<link rel=\"stylesheet\"", "@import",
		"url("} {
		if at := strings.Index(strings.ReplaceAll(body, "http://www.w3.org/2000/svg", ""), bad); at >= 0 {
			t.Errorf("the page holds %q", bad)
		}
	}
	if r, _ := get(t, base+"/nothing"); r.StatusCode != http.StatusNotFound {
		t.Errorf("an unknown path answers %d", r.StatusCode)
	}
}

// pictures is where screenshots are kept for people to look at; it is not committed.
var pictures = filepath.Join("..", "..", "..", "out", "screenshots")

func TestPageInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	quiet := status.Snapshot{Deployment: "clinic"}
	last := busy
	last.Final, last.Cohort, last.Warnings = true, nil, nil
	filling := busy
	filling.Warnings, filling.Cohort = nil, &status.Cohort{Size: 1600, Minimum: 1520, Enrolled: ptr(700),
		Reports: ptr(3), Messages: 147, Waiting: ptr(0)}
	passed := busy
	passed.Cohort = ptr(*busy.Cohort)
	passed.Cohort.Deadline = ptr(time.Now().Add(-time.Minute))
	host := status.Snapshot{Deployment: "clinic", Epoch: 2, Rounds: 1,
		Warnings: []string{"The announced plan is refused."}, Devices: &status.Devices{Known: 12, Capacity: 500},
		Cohort: &status.Cohort{Size: 800, Minimum: 760, Messages: 147}, Budget: &status.Budget{Epsilon: 0.99,
			Delta: 1e-6}}
	endless := busy
	endless.Cohort = &status.Cohort{Size: 1600, Minimum: 1520, Messages: 147, Opened: ptr(12000)}
	endless.Budget = &status.Budget{Epsilon: privacy.Epsilon(math.Inf(1)), Delta: 1e-6, Spent: ptr(privacy.Epsilon(0))}
	for _, test := range []struct {
		name, role string
		snapshot   status.Snapshot
		view       browser.View
	}{
		{"busy", "shuffler", busy, browser.View{Width: 1100, Height: 1060}},
		{"busy-dark", "shuffler", busy, browser.View{Width: 1100, Height: 1060, Dark: true}},
		{"passed-narrow", "shuffler", passed, browser.View{Width: 500, Height: 1800}},
		{"before", "analyzer", quiet, browser.View{Width: 1100}},
		{"final", "analyzer", last, browser.View{Width: 1100}},
		{"filling", "shuffler", filling, browser.View{Width: 1100, Height: 900}},
		{"no-guarantee", "analyzer", endless, browser.View{Width: 1100}},
		{"randomizer", "randomizer", host, browser.View{Width: 1100, Height: 800}},
		{"learned", "analyzer", knowing(6, 7, true), browser.View{Width: 1100, Height: 1500}},
		{"learned-many-narrow", "analyzer", knowing(50, 40, false), browser.View{Width: 500, Height: 2600, Dark: true}},
		{"learned-named", "analyzer", termed(), browser.View{Width: 1100, Height: 1500}},
		{"lasting", "analyzer", lasting(), browser.View{Width: 1100, Height: 1800}},
		{"answered", "analyzer", answering(), browser.View{Width: 1100, Height: 1800}},
		{"learned-first", "analyzer", knowing(1, 1, true), browser.View{Width: 1100, Height: 1500}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			base, _ := serve(t, test.role, test.snapshot)
			if test.view.Height > 0 { // else no picture is needed
				test.view.Picture = filepath.Join(pictures, "status-"+test.name+".png")
			}
			document := browser.Look(t, base+"/", test.view)
			_, body := get(t, base+"/status.json")
			Compare(t, document, body)
			if strings.Contains(document, "<i>not slanted") || strings.Contains(document, "<model>") {
				t.Error("a text became markup")
			}
			shown := browser.Fields(document)
			if l := test.snapshot.Learned; l != nil {
				checkLearned(t, l, document, shown)
				checkNamed(t, l.Names, document)
				if l.Total != nil {
					checkCompared(t, document, shown)
				}
			}
			checkAnswers(t, test.snapshot.Answers, document, shown)
			for i, text := range test.snapshot.Warnings {
				if got := shown[fmt.Sprintf("warnings.%d", i)].Text; got != text {
					t.Errorf("warning %q is shown as %q", text, got)
				}
			}
			if c := test.snapshot.Cohort; c != nil && c.Enrolled != nil {
				_, deadline := shown["cohort.deadline"]
				if deadline != (c.Deadline != nil) ||
					strings.Contains(document, `<div class="under">No deadline while people may enrol`) == deadline {
					t.Errorf("the deadline is shown: %v", deadline)
				}
			}
		})
	}
}

// Compare holds every marked element of the page against the JSON that it must come from.
func Compare(t *testing.T, document, body string) {
	t.Helper()
	shown := browser.Fields(document)
	var tree any
	if err := json.Unmarshal([]byte(body), &tree); err != nil {
		t.Fatal(err)
	}
	if len(shown) < 8 {
		t.Fatalf("the page shows only %v", shown)
	}
	for name, f := range shown {
		if f.Text == "" || f.Text == "…" {
			t.Errorf("%s: nothing is shown", name)
		}
		want, ok := find(tree, name)
		if !ok {
			t.Errorf("%s is shown as %q, and is not in the JSON", name, f.Text)
			continue
		}
		if f.Value != "" && !same(f.Value, want) {
			t.Errorf("%s is shown as %q, the JSON says %s", name, f.Value, text(want))
		}
		// An epsilon reads as everywhere else, rounded up.
		if n, isNumber := want.(float64); isNumber && n > 0 && (strings.HasPrefix(name, "budget.epsilon") ||
			name == "budget.spent" || strings.HasSuffix(name, ".epsilon")) {
			if got := strings.TrimPrefix(f.Text, "ε\u00a0"); got != privacy.Spell(n) {
				t.Errorf("%s reads %q, want %q", name, got, privacy.Spell(n))
			}
			continue
		}
		// What people read of a whole number is that number.
		if n, isNumber := want.(float64); isNumber && n == math.Trunc(n) && !strings.HasPrefix(f.Text, "ε") &&
			!strings.HasPrefix(name, "rate.") && f.Text != "nothing" && f.Text != "–" {
			if got := strings.ReplaceAll(f.Text, ",", ""); got != text(want) {
				t.Errorf("%s reads %q, the JSON says %s", name, f.Text, text(want))
			}
		}
	}
}

// find follows a field's name into the JSON. Accounts are named by their items.
func find(tree any, name string) (any, bool) {
	at := tree
	parts := strings.Split(name, ".")
	switch parts[0] {
	case "rate":
		parts = []string{"accounts", parts[1], "per_second"}
	case "refused":
		parts = []string{"accounts", parts[1], "reasons", parts[2]}
	}
	for _, part := range parts {
		switch node := at.(type) {
		case map[string]any:
			next, ok := node[part]
			if !ok {
				return nil, false
			}
			at = next
		case []any:
			next := any(nil)
			if i, err := strconv.Atoi(part); err == nil && i < len(node) {
				next = node[i]
			}
			for _, x := range node {
				if m, ok := x.(map[string]any); ok && m["item"] == part {
					next = m
				}
			}
			if next == nil {
				return nil, false
			}
			at = next
		default:
			return nil, false
		}
	}
	return at, true
}

// same compares numbers as numbers: JavaScript and Go write them differently.
func same(shown string, want any) bool {
	n, isNumber := want.(float64)
	v, err := strconv.ParseFloat(shown, 64)
	return isNumber && err == nil && v == n || shown == text(want)
}

func text(v any) string {
	if n, ok := v.(float64); ok {
		return strconv.FormatFloat(n, 'g', -1, 64)
	}
	if v == nil {
		return "null"
	}
	return fmt.Sprint(v)
}
