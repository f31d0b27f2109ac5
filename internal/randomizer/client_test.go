package randomizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/riffle-dp/riffle/internal/randomizer/api"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/client"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// The client's types have the JSON of the API's: the same names and kinds, and the same fields left out when empty.
func TestClientTypesHaveTheJSONOfTheAPI(t *testing.T) {
	for _, pair := range [][2]any{
		{api.Decision{}, client.Decision{}}, {api.Acceptance{}, client.Acceptance{}}, {api.Status{}, client.Status{}},
		{api.Check{}, client.Check{}},
		{privacy.Ledger{}, client.Ledger{}},
	} {
		api, own := shape(reflect.TypeOf(pair[0])), shape(reflect.TypeOf(pair[1]))
		if !slices.Equal(api, own) {
			t.Errorf("%T is\n%v, and %T is\n%v", pair[0], api, pair[1], own)
		}
	}
	for own, state := range map[client.EntryState]privacy.EntryState{
		client.Asked: privacy.Asked, client.Reserved: privacy.Reserved, client.Spent: privacy.Spent,
	} {
		if string(own) != string(state) {
			t.Errorf("state %q is %q to the client", state, own)
		}
	}
}

// shape lists what a type is in JSON: the names, tags and kinds of its fields in their order, nested ones with them.
func shape(t reflect.Type) (out []string) {
	switch {
	case t.Kind() == reflect.Pointer:
		return append([]string{"pointer"}, shape(t.Elem())...)
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Array:
		return append([]string{t.Kind().String()}, shape(t.Elem())...)
	case t.Kind() != reflect.Struct || t.PkgPath() == "time":
		return []string{t.Kind().String()}
	}
	for f := range t.Fields() {
		if f.Anonymous { // JSON has its fields in its place
			out = append(out, shape(f.Type)...)
			continue
		}
		for _, s := range shape(f.Type) {
			out = append(out, f.Name+" "+f.Tag.Get("json")+" "+s)
		}
	}
	return out
}

// The client names every reason that the API gives, and no other.
func TestClientNamesTheReasonsOfTheAPI(t *testing.T) {
	given := map[string]bool{string(Sampled): true}
	for _, r := range slices.Concat([]outcome.Reason{FinalPolicy, PlanRefused, RecordUsed, RoundsUnderWay, CohortFull,
		Unreachable, NotAdmitted, HostFull, OptedOut, DryRun, StateRolledBack, NotDrawn, WindowOver, ReportFull},
		api.Reasons()) {
		given[string(r)] = true
	}
	file, err := parser.ParseFile(token.NewFileSet(), "../../pkg/client/answer.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Reason" {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Error(err)
			}
			own[text] = true
		}
		return true
	})
	if !maps.Equal(given, own) {
		t.Errorf("the API gives %v,\nthe client knows %v", slices.Sorted(maps.Keys(given)),
			slices.Sorted(maps.Keys(own)))
	}
}

// The client reads what a randomizer answers, with nothing left over and nothing missing.
func TestClientReadsWhatTheAPIAnswers(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.unhurried(40)
	s.open(a)
	c, at, ctx := client.New(client.Options{GiveUp: -1}), client.At(s.api.URL), t.Context()
	defer c.Close()
	arms := [][]float64{{0.6, 0.2}, {-0.3, 0.5}}

	d, calls, err := c.Decide(ctx, at, "a/b", arms)
	if err != nil || !d.Sampled || d.Reason != client.Sampled || d.RewardBy == nil || calls.Attempts != 1 {
		t.Fatalf("%+v, %+v, %v", d, calls, err)
	}
	accepted, _, err := c.Reward(ctx, at, d.Token, 7)
	clipped := err == nil && accepted.Accepted && accepted.Clipped
	if !clipped || *accepted.Used != 1 || *accepted.Range != [2]float64{0, 1} {
		t.Errorf("%+v, %v", accepted, err)
	}
	again, _, err := c.Decide(ctx, at, "a/b", arms)
	if err != nil || again.Sampled || again.Reason != client.RecordUsed || again.Detail == "" || again.RewardBy != nil {
		t.Errorf("%+v, %v", again, err)
	}
	ledger, err := c.Ledger(ctx, at, "a/b")
	if err != nil || ledger.Device != "a/b" || len(ledger.Ledger.Entries) != 1 || len(ledger.Explanation) < 2 {
		t.Fatalf("%+v, %v", ledger, err)
	}
	if e := ledger.Ledger.Entries[0]; e.State == "" || !(e.Guarantee.Mu > 0) {
		t.Errorf("%+v", e)
	}
	status, err := c.Status(ctx, at)
	if err != nil || status.Epoch != 1 || !status.Enrolling || status.Devices != 1 || !(status.Epsilon > 0) {
		t.Errorf("%+v, %v", status, err)
	}
	for path, into := range map[string]any{"/v1/status": status, "/v1/devices/a%2Fb/ledger": ledger} {
		_, raw := s.get(path)
		text, err := json.Marshal(raw)
		s.must(err)
		strict := json.NewDecoder(bytes.NewReader(text))
		strict.DisallowUnknownFields()
		if err := strict.Decode(into); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		var same map[string]any
		text, err = json.Marshal(into)
		s.must(err)
		s.must(json.Unmarshal(text, &same))
		if !reflect.DeepEqual(raw, same) {
			t.Errorf("%s is %v, to the client %v", path, raw, same)
		}
	}

	_, _, badArms := c.Decide(ctx, at, "c", [][]float64{{1}})
	_, _, badDevice := c.Decide(ctx, at, "\xff", arms)
	_, _, expired := c.Reward(ctx, at, "unknown", 1)
	_, _, contradicted := c.Reward(ctx, at, d.Token, 1)
	for _, refused := range []struct {
		err    error
		reason client.Reason
		status int
	}{
		{badArms, client.BadArms, http.StatusUnprocessableEntity},
		{badDevice, client.BadDevice, http.StatusBadRequest},
		{expired, client.ExpiredToken, http.StatusGone},
		{contradicted, client.BadReward, http.StatusConflict},
	} {
		var r *client.Refusal
		if !errors.As(refused.err, &r) || !errors.Is(r, refused.reason) || r.Status != refused.status ||
			r.Detail == "" {
			t.Errorf("%v, want %s", refused.err, refused.reason)
		}
	}
	if _, _, err := c.Reward(ctx, at, d.Token, math.NaN()); err == nil {
		t.Error("a reward that is no number was sent")
	}
	s.due(a)
	s.reports(2)
}
