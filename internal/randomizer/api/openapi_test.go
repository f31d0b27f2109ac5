package api_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/randomizer/api"
	"github.com/riffle-dp/riffle/internal/testing/openapi"
	"github.com/riffle-dp/riffle/pkg/client"
)

var update = flag.Bool("update", false, "write openapi.json and docs/api.md")

// operation is one of the API. Its refusals are by status: those of statuses that all operations share are added.
type operation struct {
	method, path, id, summary string
	body                      any    // schema of the request; nil: none
	answers                   any    // of the client's types, or a schema; nil: 204 without a body
	says                      string // what the answer is
	refusals                  map[int][]client.Reason
}

const device, inDryRun = "/v1/devices/{device}", "In dry run it does nothing."

// json is an object of a schema.
type object = map[string]any

var (
	text   = object{"type": "string"}
	vector = object{"type": "array", "items": object{"type": "number"}, "description": "as many numbers as the " +
		"deployment's dimension, of Euclidean norm at most 1; longer ones are scaled down"}
	arm = object{"type": "object", "required": []string{"id"}, "properties": object{"id": text},
		"additionalProperties": true, "description": "an option with its features by the names of the schema"}
	index   = object{"type": []string{"integer", "string"}, "description": "the index of an arm, from 0, or its id"}
	choices = object{"type": "object", "required": []string{"arms"}, "properties": object{
		"arms": object{"type": "array", "maxItems": 1024, "items": object{"anyOf": []any{vector, arm}},
			"description": "the options: vectors, or features where the deployment announces a schema"},
		"context": object{"type": "object", "additionalProperties": true,
			"description": "features of the moment, with a schema"},
		"default": object{"description": "the arm that is played today: whoever is in the control group gets it",
			"anyOf": []any{index, object{"type": "null"}}},
		"exclude": object{"description": "arms that must not be played for this person",
			"type": []string{"array", "null"}, "items": index},
	}}
	reward = object{"type": "object", "required": []string{"token", "reward"}, "properties": object{
		"token": object{"type": "string", "description": "of the decision"}, "reward": object{"type": "number"}}}
	anything = object{"type": "object", "additionalProperties": true}
)

var body = map[int][]client.Reason{
	http.StatusUnsupportedMediaType: {client.BadContentType}, http.StatusRequestEntityTooLarge: {client.BodyTooLarge},
	http.StatusRequestTimeout: {client.BodyTooSlow}, http.StatusServiceUnavailable: {client.Busy},
}

// operations are those of the API, in the order of the reference.
var operations = []operation{
	{"POST", device + "/decisions", "decide", "Decide which arm a person gets.", choices, client.Decision{},
		"The arm, whether the decision is sampled, and why not.", with(body, map[int][]client.Reason{
			400: {client.BadDevice}, 422: {client.BadArms}, 500: {client.Internal},
			503: {client.NoPolicy, client.Rewound}})},
	{"POST", "/v1/rewards", "reward", "Tell the reward of a decision.", reward, client.Acceptance{},
		"The reward is taken, as the nearest value in the deployment's range.", with(body, map[int][]client.Reason{
			400: {client.BadRequest}, 409: {client.BadReward}, 410: {client.ExpiredToken}})},
	{"POST", device, "register",
		"Name a person's device, so that panels can be drawn of it; elsewhere it does nothing.", nil, client.Device{},
		"Whether the device is registered, and why it cannot be.", map[int][]client.Reason{400: {client.BadDevice},
			404: {client.NotFound}, 415: {client.BadContentType}, 500: {client.Internal}}},
	{"GET", device + "/ledger", "ledger", "Read what was promised and spent for a person.", nil, client.Statement{},
		"The ledger, and in sentences. That of a device that is not known is empty.", map[int][]client.Reason{
			400: {client.BadDevice}}},
	{"PUT", device + "/opt-out", "optOut", "Have a person never be sampled; promised reports become null.", nil, nil,
		"It is kept. " + inDryRun,
		map[int][]client.Reason{400: {client.BadDevice}, 500: {client.Internal}, 507: {client.HostFull}}},
	{"DELETE", device + "/opt-out", "optIn", "Lift that.", nil, nil, "It is kept. " + inDryRun,
		map[int][]client.Reason{400: {client.BadDevice}, 500: {client.Internal}}},
	{"DELETE", device, "erase", "Forget a person, but for what was spent and an opt-out; promised reports " +
		"become null.", nil, nil, "It is forgotten. " + inDryRun,
		map[int][]client.Reason{400: {client.BadDevice}, 404: {client.NotFound}, 500: {client.Internal}}},
	{"GET", "/v1/status", "status", "Read the epoch, its guarantee as this host computed it, and why it is refused.",
		nil, client.Status{}, "The host, now.", nil},
	{"GET", "/v1/schema", "schema", "Read the announced features.", nil, anything, "The schema.",
		map[int][]client.Reason{404: {client.NotFound}, 503: {client.NoPolicy}}},
	{"POST", "/v1/check", "check", "Learn in dry run what is wrong with a decision's body.", choices, client.Check{},
		"What is wrong, and what a host that is not in dry run does with the body.", map[int][]client.Reason{
			403: {client.NotDryRun}, 415: {client.BadContentType}, 503: {client.NoPolicy, client.Rewound}}},
	{"GET", "/v1/openapi.json", "description", "Read this description.", nil, anything, "It.", nil},
}

// everywhere are the refusals of every operation.
var everywhere = map[int][]client.Reason{
	401: {client.Unauthorized}, 403: {client.ForeignHost, client.ForeignOrigin}, 503: {client.TokensUnreadable},
}

// with are the refusals of both.
func with(a, b map[int][]client.Reason) map[int][]client.Reason {
	out := maps.Clone(a)
	for status, reasons := range b {
		out[status] = append(slices.Clone(out[status]), reasons...)
	}
	return out
}

// describe is the description of OpenAPI 3.1, with the words of the client's comments.
func describe(words *words) []byte {
	components := object{"Problem": words.problem()}
	paths := object{}
	for _, o := range operations {
		responses := object{}
		success := object{"description": o.says}
		switch schema, raw := o.answers.(object); {
		case o.answers == nil:
			responses["204"] = success
		default:
			if !raw {
				schema = words.schema(o.answers, components)
			}
			success["content"] = object{"application/json": object{"schema": schema}}
			responses["200"] = success
		}
		all := with(everywhere, o.refusals)
		for status, reasons := range all {
			slices.Sort(reasons)
			var said []string
			for _, r := range reasons {
				said = append(said, fmt.Sprintf("`%s`: %s", r, words.of(r)))
			}
			responses[strconv.Itoa(status)] = object{"description": strings.Join(said, " "),
				"content": object{"application/problem+json": object{"schema": object{"allOf": []any{
					object{"$ref": "#/components/schemas/Problem"},
					object{"properties": object{"reason": object{"enum": reasons}}},
				}}}}}
		}
		one := object{"operationId": o.id, "summary": o.summary, "responses": responses}
		if strings.Contains(o.path, "{device}") {
			one["parameters"] = []any{object{"name": "device", "in": "path", "required": true, "schema": object{
				"type": "string", "minLength": 1, "maxLength": 128,
				"description": "a person's name on this host; at most 128 bytes of UTF-8"}}}
		}
		if o.body != nil {
			one["requestBody"] = object{"required": true,
				"content": object{"application/json": object{"schema": o.body}}}
		} else if o.method == "POST" { // declared as JSON, so that no web page sends it unasked
			one["requestBody"] = object{"content": object{"application/json": object{"schema": object{}}}}
		}
		path, _ := paths[o.path].(object)
		if path == nil {
			path = object{}
			paths[o.path] = path
		}
		path[strings.ToLower(o.method)] = one
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetIndent("", " ")
	e.SetEscapeHTML(false)
	_ = e.Encode(object{
		"openapi": "3.1.0",
		"info": object{"title": "Riffle: the API of a randomizer for apps", "version": "1",
			"license": object{"name": "Apache 2.0", "identifier": "Apache-2.0"}},
		"servers":  []any{object{"url": "http://127.0.0.1:8400"}},
		"security": []any{object{}, object{"token": []string{}}},
		"paths":    paths,
		"components": object{"schemas": components, "securitySchemes": object{"token": object{
			"type": "http", "scheme": "bearer", "description": "where api.tokens is set"}}},
	})
	return out.Bytes()
}

const referenceHead = `# The local API: reference

<!-- Generated by: go test ./internal/randomizer/api -update. Do not edit. -->

Explained in [app.md](app.md); bodies are described by ` + "`GET /v1/openapi.json`" + `. Every operation may also be refused with 401, 403 and
` + "`tokens_unreadable`" + `, and each POST with 415.

`

// reference is the page for people.
func reference(words *words) string {
	var page strings.Builder
	page.WriteString(referenceHead + "| operation | what it does | refusals |\n|---|---|---|\n")
	statuses := map[client.Reason]int{}
	for _, o := range operations {
		var refusals []string
		for status, reasons := range with(everywhere, o.refusals) {
			for _, r := range reasons {
				statuses[r] = status
				if !slices.Contains(everywhere[status], r) && r != client.BadContentType {
					refusals = append(refusals, fmt.Sprintf("%d `%s`", status, r))
				}
			}
		}
		slices.Sort(refusals)
		fmt.Fprintf(&page, "| `%s %s` | %s | %s |\n", o.method, o.path, o.summary, strings.Join(refusals, ", "))
	}
	page.WriteString("\n| reason | status | what it means, and what to do |\n|---|---|---|\n")
	for _, r := range slices.Sorted(maps.Keys(statuses)) {
		fmt.Fprintf(&page, "| `%s` | %d | %s |\n", r, statuses[r], words.of(r))
	}
	return page.String()
}

// The description and the reference are what this file says of the operations, in the client's words.
func TestDescription(t *testing.T) {
	words := read(t)
	for path, want := range map[string]string{
		"openapi.json": string(describe(words)), "../../../docs/api.md": reference(words),
	} {
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s is not up to date: go test ./internal/randomizer/api -update (%v)", path, err)
		}
	}
	if !*update {
		openapi.Open(t, api.Description())
	}
	described := map[string]bool{}
	for _, o := range operations {
		for _, reasons := range with(everywhere, o.refusals) {
			for _, r := range reasons {
				described[string(r)] = true
			}
		}
	}
	for _, r := range api.Reasons() {
		if !described[string(r)] {
			t.Errorf("no operation is refused with %s", r)
		}
	}
}
