package issuer

import (
	_ "embed" // for the description
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"

	"github.com/riffle-dp/riffle/pkg/problem"
	"github.com/riffle-dp/riffle/pkg/strict"
)

//go:embed openapi.json
var description []byte

// OpenAPI is the description of the handler's requests, in JSON.
func OpenAPI() []byte { return slices.Clone(description) }

// maxBody bounds the bytes of a request.
const maxBody = 1 << 10

// asked is the body of a request.
type asked struct {
	Key string `json:"key"` // base64url of an Ed25519 public key
}

// given is the body of an answer.
type given struct {
	Credential []byte `json:"credential"` // signed wire.Credential
	NotAfter   uint64 `json:"not_after"`  // last epoch in which it admits
}

// Reasons of refusals, in the problem details.
const (
	reasonMalformed    = "malformed"
	reasonOrigin       = "origin"
	reasonUnauthorized = "unauthorized"
	reasonIssued       = "issued"
	reasonTaken        = "taken"
	reasonFull         = "full"
	reasonStorage      = "storage"
	reasonMethod       = "method"
	reasonNotFound     = "not_found"
)

// ServeHTTP answers POST /v1/credentials and GET /v1/openapi.json.
func (s *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/v1/openapi.json":
		if r.Method != http.MethodGet {
			notAllowed(w, "GET")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(description) // a client that is gone needs no answer
	case "/v1/credentials":
		s.credentials(w, r)
	default:
		problem.Write(w, http.StatusNotFound, reasonNotFound, "there is nothing here: see /v1/openapi.json")
	}
}

func notAllowed(w http.ResponseWriter, methods string) {
	w.Header().Set("Allow", methods)
	problem.Write(w, http.StatusMethodNotAllowed, reasonMethod, "use "+methods)
}

func (s *Issuer) credentials(w http.ResponseWriter, r *http.Request) {
	if !s.cross(w, r) {
		problem.Write(w, http.StatusForbidden, reasonOrigin,
			"pages of this origin may not ask: the issuer's operator lists those that may")
		return
	}
	switch r.Method {
	case http.MethodOptions:
		w.Header().Set("Access-Control-Allow-Methods", "POST")
		w.Header().Set("Access-Control-Allow-Headers", "Content-Type, Authorization")
		w.Header().Set("Access-Control-Max-Age", "86400")
		w.WriteHeader(http.StatusNoContent)
		return
	case http.MethodPost:
	default:
		notAllowed(w, "POST, OPTIONS")
		return
	}
	account, err := s.c.Account(r)
	if err != nil || account == "" {
		problem.Write(w, http.StatusUnauthorized, reasonUnauthorized, "log in first")
		return
	}
	key, err := keyOf(w, r)
	if err != nil {
		problem.Write(w, http.StatusBadRequest, reasonMalformed, err.Error())
		return
	}
	signed, err := s.credential(account, key)
	if err != nil {
		for _, c := range []struct {
			err    error
			status int
			reason string
		}{
			{errIssued, http.StatusConflict, reasonIssued}, {errTaken, http.StatusConflict, reasonTaken},
			{errFull, http.StatusServiceUnavailable, reasonFull},
		} {
			if errors.Is(err, c.err) {
				problem.Write(w, c.status, c.reason, c.err.Error())
				return
			}
		}
		problem.Write(w, http.StatusServiceUnavailable, reasonStorage, errBroken.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(given{signed, s.c.End}) // a client that is gone asks again
}

// cross sets what a browser must hear of the page that asks, and reports whether the page may. Other clients name no
// origin.
func (s *Issuer) cross(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	w.Header().Add("Vary", "Origin")
	if slices.Contains(s.c.Origins, origin) {
		w.Header().Set("Access-Control-Allow-Origin", origin)
		w.Header().Set("Access-Control-Allow-Credentials", "true")
		return true
	}
	return origin == "https://"+r.Host || origin == "http://"+r.Host
}

// keyOf reads the request's key. A page of another origin cannot send JSON without asking first.
func keyOf(w http.ResponseWriter, r *http.Request) (key [32]byte, err error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return key, errors.New("the Content-Type must be application/json")
	}
	var a asked
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		err = strict.Unmarshal(body, &a, strict.Options{})
	}
	if err != nil {
		return key, errors.New(`the body must be {"key": TEXT} and nothing else`)
	}
	b, err := base64.RawURLEncoding.DecodeString(a.Key)
	if err != nil || len(b) != len(key) {
		return key, errors.New("key must be an Ed25519 public key, 32 bytes as unpadded base64url")
	}
	return [32]byte(b), nil
}
