package randomizer

import (
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/riffle-dp/riffle/internal/role/outcome"
)

// Callers says who may call the API besides programs on this machine. A browser on this machine is such a program, and
// it runs what any page tells it to: a page must neither spend a person's record nor read a ledger, not even one whose
// name was made to lead here.
type Callers struct {
	// names and addresses, without port, that a request may call this host by besides those of loopback
	Hosts   []string
	Origins []string // pages that may call it, as scheme://host[:port]
}

// handler serves one request, whose body must have arrived by the given time. It counts in the account what becomes of it.
type handler func(w http.ResponseWriter, r *http.Request, by time.Time, count *outcome.Outcomes)

// guarded looks at a request's header, before anything of its body, and bounds how long the body may take. What it
// refuses is counted in the account.
//
// Where panels are drawn, how many decisions a person makes is part of what their report protects, and everybody may see
// the accounts: no decision is counted.
func (h *Host) guarded(account *outcome.Outcomes, next handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		o := account
		if o == h.c.Decisions && h.drawsPanels() {
			o = nil
		}
		o.Received(1)
		by := time.Now().Add(h.bodies.time)
		why, err := h.c.Callers.check(r)
		if err == nil {
			if err = http.NewResponseController(w).SetReadDeadline(by); err != nil {
				why = Internal
			}
		}
		if err != nil {
			o.Refused(why, 1)
			refuse(w, why, err.Error())
			return
		}
		if origin := r.Header.Get("Origin"); origin != "" { // an allowed one, whose page may see the answer
			w.Header().Set("Access-Control-Allow-Origin", origin)
			w.Header().Set("Vary", "Origin")
		}
		next(w, r, by, o)
	}
}

// preflight answers the question of a browser whether a page of an allowed origin may send JSON.
func preflight(w http.ResponseWriter, _ *http.Request, _ time.Time, _ *outcome.Outcomes) {
	w.Header().Set("Access-Control-Allow-Methods", "GET, POST")
	w.Header().Set("Access-Control-Allow-Headers", "Content-Type")
	w.WriteHeader(http.StatusNoContent)
}

// check tells why a request is refused on its header.
func (c Callers) check(r *http.Request) (outcome.Reason, error) {
	host := hostOf(r.Host)
	if ip := net.ParseIP(host); host != "localhost" && !ip.IsLoopback() &&
		!slices.ContainsFunc(c.Hosts, func(h string) bool { return hostOf(h) == host }) {
		return ForeignHost, fmt.Errorf("the request calls this host %q, which is no name of it; see api.hosts", r.Host)
	}
	origins := r.Header.Values("Origin")
	for _, o := range origins {
		if !slices.ContainsFunc(c.Origins, func(allowed string) bool { return strings.EqualFold(allowed, o) }) {
			return ForeignOrigin, fmt.Errorf("pages of %q may not call this host; see api.origins", o)
		}
	}
	// A browser says so where a page of another site, or of another port of this one, makes it ask without telling the
	// page's origin.
	if site := r.Header.Get("Sec-Fetch-Site"); len(origins) == 0 && site != "" && site != "same-origin" &&
		site != "none" {
		return ForeignOrigin, fmt.Errorf("a page of another origin (%s) may not call this host; see api.origins", site)
	}
	// Pages may send forms and text anywhere unasked, JSON they may not.
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); r.Method == http.MethodPost &&
		(err != nil || kind != "application/json") {
		return BadContentType, errors.New("the content type must be application/json: send the header Content-Type: " +
			"application/json")
	}
	return "", nil
}

// hostOf is the name or address of a Host header or an entry of api.hosts, without its port.
func hostOf(hostport string) string {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// checkOrigin tells whether an entry of api.origins is an origin as browsers send it.
func checkOrigin(origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Scheme != "" && u.Host != "" && u.Scheme+"://"+u.Host == origin
}
