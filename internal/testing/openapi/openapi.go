// Package openapi holds a handler to its OpenAPI 3.1 description: what the handler answers must be described, and what
// is described must have been answered. It knows the keywords that Riffle's descriptions use, and refuses others, so
// that it never passes what it does not understand.
//
// The libraries for it bring a dozen modules each; this reads some twenty keywords.
package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// problems is the media type of refusals (RFC 9457).
const problems = "application/problem+json"

// Document is a description, and what was answered so far. Safe for concurrent use.
type Document struct {
	operations []*Operation
	schemas    map[string]any // by name

	mu   sync.Mutex
	seen map[string]bool
}

// Operation is a method of a path.
type Operation struct {
	Method, Path string
	Summary      string
	Answers      []Answer // by status

	matches   *regexp.Regexp
	wildcards int
}

// Answer is a status that an operation may answer with.
type Answer struct {
	Status      string
	Description string
	Reasons     []string // of a refusal; nil where it is none

	content map[string]any // media type -> schema
}

// The keywords of objects that are no schemas.
var known = map[string][]string{
	"document": {"openapi", "info", "paths", "components", "security", "servers", "tags"},
	"operation": {"operationId", "summary", "description", "parameters", "requestBody", "responses", "security",
		"tags"},
	"response": {"description", "content", "headers"},
}

// Open reads a description. It ends the test where there is something that this package does not know.
func Open(t testing.TB, text []byte) *Document {
	t.Helper()
	d, err := open(text)
	if err != nil {
		t.Fatalf("openapi: %v", err)
	}
	return d
}

func open(text []byte) (*Document, error) {
	var root struct {
		OpenAPI    string                               `json:"openapi"`
		Paths      map[string]map[string]map[string]any `json:"paths"`
		Components struct {
			Schemas map[string]any `json:"schemas"`
		} `json:"components"`
	}
	var all map[string]any
	if err := json.Unmarshal(text, &root); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	if err := only("document", all); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(root.OpenAPI, "3.1.") {
		return nil, fmt.Errorf("it is of version %q", root.OpenAPI)
	}
	d := &Document{schemas: root.Components.Schemas, seen: map[string]bool{}}
	for name, s := range d.schemas {
		if err := d.understands(s); err != nil {
			return nil, fmt.Errorf("schema %s: %w", name, err)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(root.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(root.Paths[path])) {
			o, err := d.operation(path, method, root.Paths[path][method])
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", method, path, err)
			}
			d.operations = append(d.operations, o)
		}
	}
	if len(d.operations) == 0 {
		return nil, fmt.Errorf("it has no operations")
	}
	return d, nil
}

// only refuses keywords that this package does not know.
func only(what string, object map[string]any) error {
	for key := range object {
		if !slices.Contains(known[what], key) {
			return fmt.Errorf("the keyword %q of a %s is not known", key, what)
		}
	}
	return nil
}

// wildcard is a part of a path that is a parameter's value.
var wildcard = regexp.MustCompile(`\\\{[^}]+\\\}`)

func (d *Document) operation(path, method string, said map[string]any) (*Operation, error) {
	if err := only("operation", said); err != nil {
		return nil, err
	}
	quoted := regexp.QuoteMeta(path)
	o := &Operation{
		Method: strings.ToUpper(method), Path: path, wildcards: len(wildcard.FindAllString(quoted, -1)),
		matches: regexp.MustCompile("^" + wildcard.ReplaceAllString(quoted, "[^/]+") + "$"),
	}
	o.Summary, _ = said["summary"].(string)
	if id, _ := said["operationId"].(string); id == "" || o.Summary == "" {
		return nil, fmt.Errorf("it has no operationId or no summary")
	}
	responses, _ := said["responses"].(map[string]any)
	for _, status := range slices.Sorted(maps.Keys(responses)) {
		response, _ := responses[status].(map[string]any)
		a := Answer{Status: status, content: map[string]any{}}
		a.Description, _ = response["description"].(string)
		if err := only("response", response); err != nil || a.Description == "" {
			return nil, fmt.Errorf("answer %s: it has no description, or %w", status, err)
		}
		content, _ := response["content"].(map[string]any)
		for kind, of := range content {
			object, _ := of.(map[string]any)
			schema := object["schema"]
			if err := d.understands(schema); err != nil {
				return nil, fmt.Errorf("answer %s: %w", status, err)
			}
			a.content[kind] = schema
			if kind != problems {
				continue
			}
			if a.Reasons = d.reasons(schema); len(a.Reasons) == 0 {
				return nil, fmt.Errorf("answer %s: it lists no reasons", status)
			}
		}
		o.Answers = append(o.Answers, a)
	}
	if len(o.Answers) == 0 {
		return nil, fmt.Errorf("it has no answers")
	}
	return o, nil
}

// reasons are those that a schema of problem details allows.
func (d *Document) reasons(schema any) (all []string) {
	s := d.resolve(schema)
	if properties, ok := s["properties"].(map[string]any); ok {
		for _, r := range list(d.resolve(properties["reason"])["enum"]) {
			text, _ := r.(string)
			all = append(all, text)
		}
	}
	for _, part := range list(s["allOf"]) {
		all = append(all, d.reasons(part)...)
	}
	return all
}

// Operations are those of the description.
func (d *Document) Operations() []*Operation { return d.operations }

// Unseen are the answers that are described and that no request brought: method, path, status and, of a refusal, the
// reason.
func (d *Document) Unseen() (all []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, o := range d.operations {
		for _, a := range o.Answers {
			for _, reason := range append([]string{}, a.names()...) {
				if key := keyOf(o, a.Status, reason); !d.seen[key] {
					all = append(all, key)
				}
			}
		}
	}
	return all
}

// names are an answer's reasons; "" is that of one that is no refusal.
func (a Answer) names() []string {
	if a.Reasons == nil {
		return []string{""}
	}
	return a.Reasons
}

func keyOf(o *Operation, status, reason string) string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %s", o.Method, o.Path, status, reason))
}
