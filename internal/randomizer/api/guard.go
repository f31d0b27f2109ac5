package api

import (
	"errors"
	"net/http"
	"time"

	"github.com/riffle-dp/riffle/internal/role/listen"
	"github.com/riffle-dp/riffle/internal/role/outcome"
)

// handler serves one request, whose body must have arrived by the given time.
type handler func(w http.ResponseWriter, r *http.Request, by time.Time)

// guard looks at a request's header, before anything of its body (see role.Callers), and bounds how long the body may
// take. Nothing counts requests, or what becomes of them: a count would tell whoever reads the metrics or the log that
// a person's decision or reward came, and when.
func (a *API) guard(next handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		by := time.Now().Add(a.bodies.time)
		why, err := a.access.check(r)
		if err == nil {
			if err = http.NewResponseController(w).SetReadDeadline(by); err != nil {
				why = Internal
			}
		}
		if err != nil {
			refuse(w, why, err.Error())
			return
		}
		if origin := r.Header.Get("Origin"); origin != "" { // an allowed one, whose page may see the answer
			w.Header().Set("Access-Control-Allow-Origin", origin)
			w.Header().Set("Vary", "Origin")
		}
		next(w, r, by)
	}
}

// check tells why a request is refused on its header. A browser that asks beforehand whether a page may send a request
// shows no token, and is told nothing else.
func (a Access) check(r *http.Request) (outcome.Reason, error) {
	why, err := a.Check(r)
	if err != nil || a.Tokens == nil || r.Method == http.MethodOptions {
		return why, err
	}
	switch err = a.Tokens.Check(r); {
	case errors.Is(err, listen.ErrTokens):
		return TokensLost, err
	case err != nil:
		return Unauthorized, err
	}
	return "", nil
}

// preflight answers the question of a browser whether a page of an allowed origin may send JSON.
func preflight(w http.ResponseWriter, _ *http.Request, _ time.Time) {
	w.Header().Set("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE")
	w.Header().Set("Access-Control-Allow-Headers", "Authorization, Content-Type")
	w.WriteHeader(http.StatusNoContent)
}
