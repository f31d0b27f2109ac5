package api

import (
	"net/http"
	"time"
)

// serveErasure forgets a device.
func (a *API) serveErasure(w http.ResponseWriter, r *http.Request, _ time.Time) {
	name, ok := named(w, r)
	if !ok {
		return
	}
	done(w, a.host.Erase(name))
}

// serveOptOut has a device never be sampled, or lifts that.
func (a *API) serveOptOut(out bool) handler {
	return func(w http.ResponseWriter, r *http.Request, _ time.Time) {
		name, ok := named(w, r)
		if !ok {
			return
		}
		done(w, a.host.OptOut(name, out))
	}
}

// done answers that something is durable, or why it is not.
func done(w http.ResponseWriter, err error) {
	if err != nil {
		refuse(w, reasonFor(err), err.Error())
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
