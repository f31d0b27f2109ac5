package client

import (
	"context"
	"encoding/json"
	"net/http"
)

// Arm is one arm of a decision in a deployment that announces a schema of features.
type Arm struct {
	ID       string         // 1 to 256 bytes, unique among the arms of a decision
	Features map[string]any // numbers, texts, booleans by the names of the schema's fields; nil is a missing value
}

// MarshalJSON puts the id among the features.
func (a Arm) MarshalJSON() ([]byte, error) {
	all := make(map[string]any, len(a.Features)+1)
	for name, v := range a.Features {
		all[name] = v
	}
	all["id"] = a.ID
	return json.Marshal(all)
}

// Request is what DecideAmong asks about: Arms in their Context where the deployment announces a schema of features
// (Client.Schema), and Vectors where it does not.
type Request struct {
	Context map[string]any // features of the moment, the same for all arms
	Arms    []Arm
	Vectors [][]float64
	// Default is the index of the arm that is played today: everybody in a control group gets it.
	Default int
	Exclude []int // indices of arms that must not be played for this person
}

// MarshalJSON gives the body that the API takes.
func (r Request) MarshalJSON() ([]byte, error) {
	body := map[string]any{"arms": r.Vectors}
	if r.Context != nil || r.Arms != nil {
		body["context"], body["arms"] = r.Context, r.Arms
	}
	if r.Default != 0 {
		body["default"] = r.Default
	}
	if len(r.Exclude) > 0 {
		body["exclude"] = r.Exclude
	}
	return json.Marshal(body)
}

// DecideAmong is Decide with all that an app may say of the arms.
func (c *Client) DecideAmong(ctx context.Context, at Base, device string, r Request) (*Decision, Calls, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, Calls{}, err
	}
	return c.DecideRaw(ctx, at, device, body)
}

// Check asks a randomizer in dry run what is wrong with a request, and what becomes of it; any other refuses it as
// NotDryRun.
func (c *Client) Check(ctx context.Context, at Base, r Request) (*Check, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	checked, _, err := attempt[Check](ctx, c, http.MethodPost, at, "/v1/check", body)
	return checked, err
}

// Schema reads the announced schema of features as JSON, in one attempt. It is refused as NotFound where there is none.
func (c *Client) Schema(ctx context.Context, at Base) (json.RawMessage, error) {
	s, _, err := attempt[json.RawMessage](ctx, c, http.MethodGet, at, "/v1/schema", nil)
	if err != nil {
		return nil, err
	}
	return *s, nil
}
