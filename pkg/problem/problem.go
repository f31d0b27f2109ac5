// Package problem writes the refusals of Riffle's HTTP interfaces as problem details (RFC 9457), so that a client reads
// all of them alike. It says nothing but what it is given.
package problem

import (
	"encoding/json"
	"net/http"
)

// ContentType is the media type of problem details.
const ContentType = "application/problem+json"

// Details are the body of a refusal.
type Details struct {
	Type   string `json:"type"`             // always about:blank: Reason says what it is
	Title  string `json:"title"`            // the text of Status
	Status int    `json:"status"`           // as in the answer's first line
	Reason string `json:"reason"`           // a word for programs
	Detail string `json:"detail,omitempty"` // a sentence for people
}

// New are the details of a refusal with an HTTP status from 400 to 599.
func New(status int, reason, detail string) Details {
	return Details{"about:blank", http.StatusText(status), status, reason, detail}
}

// Write answers a request with a refusal. Headers that are set before stay.
func Write(w http.ResponseWriter, status int, reason, detail string) {
	Send(w, status, New(status, reason, detail))
}

// Send answers with details of a type that embeds Details.
func Send(w http.ResponseWriter, status int, details any) {
	w.Header().Set("Content-Type", ContentType)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(details) // a client that is gone needs no answer
}
