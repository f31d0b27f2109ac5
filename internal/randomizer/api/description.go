package api

import (
	_ "embed"
	"net/http"
	"time"
)

// description is of OpenAPI 3.1. A test writes it, and holds the handler to it.
//
//go:embed openapi.json
var description []byte

// Description is what GET /v1/openapi.json answers.
func Description() []byte { return description }

func serveDescription(w http.ResponseWriter, _ *http.Request, _ time.Time) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(description) // a client that went away is no error of ours
}
