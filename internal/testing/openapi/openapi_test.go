package openapi

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

const described = `{"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {
	"/v1/things/{name}": {"get": {"operationId": "thing", "summary": "One thing.", "responses": {
		"200": {"description": "It.", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}},
		"404": {"description": "None.", "content": {"application/problem+json": {"schema": {"allOf": [
			{"$ref": "#/components/schemas/Problem"},
			{"properties": {"reason": {"enum": ["gone", "never"]}}}]}}}}}}},
	"/v1/things/all": {"get": {"operationId": "things", "summary": "All.", "responses": {
		"204": {"description": "Nothing."}}}}},
	"components": {"schemas": {
		"Thing": {"type": "object", "required": ["size"], "properties": {"size": {"type": "integer", "minimum": 1},
			"at": {"type": ["string", "null"], "format": "date-time"}, "parts": {"type": "array", "items": {"type": "string"}}}},
		"Problem": {"type": "object", "required": ["reason"], "properties": {"reason": {"type": "string"},
			"detail": {"type": "string"}}}}}}`

// What is not described is found, and so is what is described and does not come.
func TestAnAnswerIsHeldToItsDescription(t *testing.T) {
	d := Open(t, []byte(described))
	const wrong = true
	for _, c := range []struct {
		path, kind, body string
		status           int
		wrong            bool
	}{
		{"/v1/things/a", "application/json", `{"size": 1}`, 200, !wrong},
		{"/v1/things/a", "application/json; charset=utf-8", `{"size": 1, "at": null}`, 200, !wrong},
		{"/v1/things/a", "application/json", `{"size": 1, "at": "2026-01-01T00:00:00Z"}`, 200, !wrong},
		{"/v1/things/a", "application/json", `{"size": 1, "at": "soon"}`, 200, wrong},
		{"/v1/things/a", "application/json", `{"size": 0}`, 200, wrong},
		{"/v1/things/a", "application/json", `{"size": 1.5}`, 200, wrong},
		{"/v1/things/a", "application/json", `{"size": 1, "weight": 3}`, 200, wrong},
		{"/v1/things/a", "application/json", `{"size": 1, "parts": [1]}`, 200, wrong},
		{"/v1/things/a", "application/json", `{}`, 200, wrong},
		{"/v1/things/a", "application/json", `{"size": `, 200, wrong},
		{"/v1/things/a", "text/plain", `{"size": 1}`, 200, wrong},
		{"/v1/things/a", "application/json", `{"size": 1}`, 201, wrong},
		{"/v1/things/a%2Fb", "application/problem+json", `{"reason": "gone", "detail": "x"}`, 404, !wrong},
		{"/v1/things/a", "application/problem+json", `{"reason": "lost"}`, 404, wrong},
		{"/v1/things/a", "application/problem+json", `{"reason": "gone", "why": "x"}`, 404, wrong},
		{"/v1/things/all", "", "", 204, !wrong},
		{"/v1/things/all", "application/json", `{"size": 1}`, 200, wrong},
		{"/v1/others", "application/json", `{}`, 200, wrong},
		{"/v1/others", "application/json", `{}`, 404, !wrong},
	} {
		failed := &quiet{TB: t}
		handler := d.Watch(failed, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.kind)
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}))
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, c.path, nil))
		if failed.failed != c.wrong || answer.Code != c.status || answer.Body.String() != c.body {
			t.Errorf("%+v: failed %v, answered %d", c, failed.failed, answer.Code)
		}
	}
	if got := d.Unseen(); !slices.Equal(got, []string{"GET /v1/things/{name} 404 never"}) {
		t.Errorf("unseen: %v", got)
	}
}

// A keyword that is not known is refused: it would judge nothing.
func TestAnUnknownKeywordIsRefused(t *testing.T) {
	for _, change := range [][2]string{
		{`"minimum": 1`, `"multipleOf": 2`}, {`"3.1.0"`, `"3.0.0"`}, {`"info"`, `"webhooks": {}, "info"`},
		{`"description": "Nothing."`, `"links": {}`}, {`schemas/Thing"`, `schemas/Other"`},
		{`"enum": ["gone", "never"]`, `"type": "string"`}, {`"summary": "All.", `, ``},
		{`"operationId": "things"`, `"callbacks": {}`},
	} {
		text := strings.Replace(described, change[0], change[1], 1)
		if _, err := open([]byte(text)); err == nil || text == described {
			t.Errorf("%s is taken", change[1])
		}
	}
}

// quiet notes that a test would have failed.
type quiet struct {
	testing.TB
	failed bool
}

func (q *quiet) Errorf(string, ...any) { q.failed = true }
