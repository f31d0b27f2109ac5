package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/glm"
)

// Arms are the arms of one decision.
type Arms struct {
	Vectors [][]float64 // of the policy's dimension
	IDs     []string    // of the arms in their order; nil where the app sent vectors
	Choice  glm.Choice  // the default arm, and those that must not be played
}

// ID is the arm's id, "" where there is none.
func (a Arms) ID(arm int) string {
	if a.IDs == nil {
		return ""
	}
	return a.IDs[arm]
}

// What is wrong with arms of the wrong kind, with what to do.
const (
	errArms badBody = `field "arms" must be a list of lists of numbers, each in the range of a float64`

	errNoSchema badBody = `this deployment announces no schema of features: send {"arms": [[number, ...], ...]}, ` +
		`one vector of the policy's dimension for each arm`

	errVectors badBody = `this deployment announces a schema of features (GET /v1/schema): send {"context": {...}, ` +
		`"arms": [{"id": "...", ...}, ...]} and no vectors`
)

// decisionBytes bounds the body of a decision between arms of that dimension.
func decisionBytes(dimension int) int64 {
	return min(maxDecision, spareBytes+maxArms*numberBytes*int64(dimension+1))
}

// decisionRoom bounds the bytes of a decision's body, and says how much room each of them takes: a short arm in
// features becomes a long vector. The shortest arm has 10 bytes, and its vector 8 in each dimension.
func decisionRoom(dimension int, schema *feature.Schema) (limit, weight int64) {
	if schema == nil {
		return decisionBytes(dimension), 1
	}
	return maxFeatures, 3 + int64(dimension)/12
}

// request is a decision's body as it is read.
type request struct {
	dimension int
	schema    *feature.Schema // nil: arms are vectors
	vectors   [][]float64
	context   feature.Values
	arms      []feature.Arm
	standard  any   // the default: an index, an id, or nil
	excluded  []any // indices and ids
}

// readDecision reads {"arms": [[number, ...], ...]} or, with a schema, {"context": {name: value, ...}, "arms": [{"id":
// text, name: value, ...}, ...]}, either with "default" and "exclude", and nothing else. Each key may come once. It
// holds no more of the body than one token, or what is in place of a number, and the values. It ends at the first
// arm that is too long, the first that is too many, and the first field that the schema does not have.
func readDecision(body io.Reader, dimension int, schema *feature.Schema) (out Arms, err error) {
	d, q := json.NewDecoder(body), request{dimension: dimension, schema: schema}
	defer func() { err = bodyError(err) }()
	err = q.read(d)
	if err == nil {
		err = readEnd(d)
	}
	if err == nil {
		out, err = q.encode()
	}
	if err != nil {
		return Arms{}, err
	}
	return out, nil
}

func (q *request) read(d *json.Decoder) error {
	read := map[string]func(*json.Decoder) error{
		"context": q.readContext, "arms": q.readArms, "default": q.readDefault, "exclude": q.readExcluded,
	}
	switch open, err := d.Token(); {
	case err != nil:
		return err
	case open == nil:
		return nil
	case open != json.Delim('{'):
		return badBody(`the body must be a JSON object with the field "arms"`)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		next := read[key.(string)] // the decoder refuses every other key
		if next == nil {
			return badBody(`an unknown field, or one that comes twice; want "arms", and perhaps "context", ` +
				`"default" and "exclude"`)
		}
		delete(read, key.(string))
		if err := next(d); err != nil {
			return err
		}
	}
	_, err := d.Token() // the closing brace
	return err
}

// list reads a list, null being an empty one; next is called with each position's first token.
func list(d *json.Decoder, no badBody, next func(i int, first json.Token) error) error {
	switch open, err := d.Token(); {
	case err != nil:
		return err
	case open == nil:
		return nil
	case open != json.Delim('['):
		return no
	}
	for i := 0; d.More(); i++ {
		if i == maxArms {
			return fmt.Errorf("%w: more than %d arms", ErrBodyTooLarge, maxArms)
		}
		first, err := d.Token()
		if err == nil {
			err = next(i, first)
		}
		if err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

func (q *request) readArms(d *json.Decoder) error {
	if q.schema != nil {
		return list(d, errVectors, func(i int, first json.Token) error { return q.readFeatures(d, i, first) })
	}
	return list(d, errArms, func(i int, first json.Token) error { return q.readVector(d, i, first) })
}

func (q *request) readVector(d *json.Decoder, i int, first json.Token) error {
	arm := make([]float64, 0, q.dimension)
	switch first {
	case json.Delim('['):
	case json.Delim('{'):
		return errNoSchema
	case nil: // an arm of no numbers
		q.vectors = append(q.vectors, arm)
		return nil
	default:
		return errArms
	}
	var x float64
	for d.More() {
		x = math.NaN() // which no number is, and null leaves
		if err := d.Decode(&x); err != nil {
			return err
		}
		if math.IsNaN(x) {
			return errArms
		}
		if len(arm) == q.dimension {
			return badBody(fmt.Sprintf("arm %d has more numbers than the policy's dimension, which is %d", i,
				q.dimension))
		}
		arm = append(arm, x)
	}
	q.vectors = append(q.vectors, arm)
	_, err := d.Token()
	return err
}

func (q *request) readContext(d *json.Decoder) error {
	if q.schema == nil {
		return errNoSchema
	}
	first, err := d.Token()
	if err != nil || first == nil {
		return err
	}
	q.context, err = q.readValues(d, feature.Context, first, nil)
	return err
}

func (q *request) readFeatures(d *json.Decoder, i int, first json.Token) (err error) {
	if first == json.Delim('[') {
		return errVectors
	}
	var arm feature.Arm
	arm.Features, err = q.readValues(d, i, first, &arm.ID)
	q.arms = append(q.arms, arm)
	return err
}

// readValues reads the features of the arm of that index, or of the context. The id, which only arms have, goes to id.
func (q *request) readValues(d *json.Decoder, arm int, first json.Token, id *string) (feature.Values, error) {
	if first != json.Delim('{') {
		return nil, badBody(`the context and each of the arms must be objects, like {"id": "...", ...}`)
	}
	var values feature.Values
	identified := false
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		name := key.(string)
		isID := id != nil && name == feature.ID
		if !isID {
			if err := q.schema.CheckField(arm, name); err != nil {
				return nil, err
			}
		}
		if _, twice := values[name]; twice || isID && identified {
			return nil, badBody(fmt.Sprintf("feature %q comes twice", name))
		}
		v, err := readScalar(d, name)
		if err != nil {
			return nil, err
		}
		if isID {
			text, ok := v.(string)
			if !ok {
				return nil, badBody(fmt.Sprintf(`arm %d: its "id" must be a text`, arm))
			}
			*id, identified = text, true
			continue
		}
		if values == nil {
			values = feature.Values{}
		}
		values[name] = v
	}
	_, err := d.Token()
	return values, err
}

// readScalar reads a number, a text, true, false or null.
func readScalar(d *json.Decoder, name string) (any, error) {
	v, err := d.Token()
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return nil, badBody(fmt.Sprintf("%q must be in the range of a float64", name))
	}
	if _, nested := v.(json.Delim); nested {
		return nil, badBody(fmt.Sprintf("%q must be a number, a text, true, false or null", name))
	}
	return v, err
}

func (q *request) readDefault(d *json.Decoder) (err error) {
	q.standard, err = readScalar(d, "default")
	return err
}

func (q *request) readExcluded(d *json.Decoder) error {
	const no badBody = `"exclude" must be a list of arms: of their indices or, with a schema, of their ids`
	return list(d, no, func(_ int, first json.Token) error {
		if _, nested := first.(json.Delim); nested {
			return no
		}
		q.excluded = append(q.excluded, first)
		return nil
	})
}

// encode makes of the body what the policy needs.
func (q *request) encode() (out Arms, err error) {
	out.Vectors = q.vectors
	if q.schema != nil {
		if out.Vectors, err = q.schema.Encode(q.context, q.arms); err != nil {
			return Arms{}, err
		}
		out.IDs = make([]string, len(q.arms))
		for i, a := range q.arms {
			out.IDs[i] = a.ID
		}
	}
	index := make(map[string]int, len(out.IDs))
	for i, id := range out.IDs {
		index[id] = i
	}
	// named is the index of the arm that a value names.
	named := func(field string, v any) (int, error) {
		switch v := v.(type) {
		case float64:
			if v == math.Trunc(v) && v >= 0 && v < float64(len(out.Vectors)) {
				return int(v), nil
			}
		case string:
			if i, ok := index[v]; ok {
				return i, nil
			}
		}
		return 0, badBody(fmt.Sprintf("%q names no arm of this decision: it takes indices from 0 and, "+
			"with a schema of features, ids", field))
	}
	if q.standard != nil {
		if out.Choice.Default, err = named("default", q.standard); err != nil {
			return Arms{}, err
		}
	}
	for _, v := range q.excluded {
		i, err := named("exclude", v)
		if err != nil {
			return Arms{}, err
		}
		out.Choice.Excluded = append(out.Choice.Excluded, i)
	}
	return out, nil
}
