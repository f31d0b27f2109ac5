package api

import (
	"errors"
	"net/http"
	"time"
)

// dryRunHeader is in each answer of a host in dry run, whatever the answer is.
const dryRunHeader = "Riffle-Dry-Run"

// inDryRun marks the answers of a handler.
func inDryRun(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(dryRunHeader, "true")
		next.ServeHTTP(w, r)
	})
}

// isDryRun reports whether an answer is one of a host in dry run.
func isDryRun(w http.ResponseWriter) bool { return w.Header().Get(dryRunHeader) != "" }

// serveCheck says whether a body can be decided about.
func (a *API) serveCheck(w http.ResponseWriter, r *http.Request, by time.Time) {
	arms, forget := a.reading(w, r, by)
	defer forget()
	d, would, err := a.host.Check(arms)
	c := Check{OK: err == nil, Would: would, DryRun: true}
	switch {
	case errors.Is(err, ErrArms):
		c.Reason, c.Detail = reasonFor(err), err.Error()
	case err != nil:
		refuse(w, reasonFor(err), err.Error())
		return
	default:
		c.Decision = &d
	}
	answer(w, http.StatusOK, c)
}
