package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"testing"
)

// Watch is a handler whose answers are held to the description: the test fails on one that is not described.
func (d *Document) Watch(t testing.TB, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		heard := &recorder{ResponseWriter: w}
		next.ServeHTTP(heard, r)
		if err := d.judge(r, heard); err != nil {
			t.Errorf("%s %s: %v", r.Method, r.URL.EscapedPath(), err)
		}
	})
}

// recorder keeps what is answered.
type recorder struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= 200 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	r.body.Write(b)
	return r.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// judge says what of an answer is not described, and notes it.
func (d *Document) judge(r *http.Request, heard *recorder) error {
	status := heard.status
	if status == 0 {
		status = http.StatusOK
	}
	kind, _, _ := mime.ParseMediaType(heard.Header().Get("Content-Type"))
	o := d.find(r)
	if o == nil {
		if status >= 300 || r.Method == http.MethodOptions {
			return nil // no operation, and refused
		}
		return fmt.Errorf("it is answered with %d, and is not described", status)
	}
	at := slices.IndexFunc(o.Answers, func(a Answer) bool { return a.Status == strconv.Itoa(status) })
	if at < 0 {
		return fmt.Errorf("the answer %d is not described: %s", status, heard.body.String())
	}
	a := o.Answers[at]
	reason := ""
	if r.Method != http.MethodHead {
		schema, described := a.content[kind]
		switch {
		case len(a.content) == 0 && heard.body.Len() == 0:
		case !described:
			return fmt.Errorf("the answer %d of type %q is not described", status, kind)
		case kind == "application/json" || kind == problems:
			var body any
			if err := json.Unmarshal(heard.body.Bytes(), &body); err != nil {
				return fmt.Errorf("the answer %d: %w", status, err)
			}
			if err := d.fits(schema, body, ""); err != nil {
				return fmt.Errorf("the answer %d: %w in %s", status, err, heard.body.String())
			}
			if object, ok := body.(map[string]any); ok && kind == problems {
				reason, _ = object["reason"].(string)
			}
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen[keyOf(o, a.Status, reason)] = true
	return nil
}

// find is the operation of a request: of those that match, the one with the fewest parameters.
func (d *Document) find(r *http.Request) (best *Operation) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for _, o := range d.operations {
		if o.Method == method && o.matches.MatchString(r.URL.EscapedPath()) &&
			(best == nil || o.wildcards < best.wildcards) {
			best = o
		}
	}
	return best
}
