package role

import (
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/riffle-dp/riffle/internal/config"
	"github.com/riffle-dp/riffle/internal/role/outcome"
)

// Callers says which requests a listener serves besides those of programs on this machine. A browser on this machine is
// such a program, and it runs what any page tells it to: a page must neither send anything here nor read anything, not
// even one whose name was made to lead here.
type Callers struct {
	// Key is the configuration section of the listener, which refusals name: api, ops.
	Key string
	// Hosts are names and addresses, without port, that a request may call this process by besides those of loopback
	// and the address that it came to.
	Hosts   []string
	AnyHost bool     // a request may call it by any name
	Origins []string // pages that may call it, as scheme://host[:port]
}

// Why a request is refused on its header.
const (
	ForeignHost    outcome.Reason = "foreign_host"
	ForeignOrigin  outcome.Reason = "foreign_origin"
	BadContentType outcome.Reason = "bad_content_type"
)

// CallersOf are the callers of a listener: those configured, and what its own address says. An address that stands for
// every address names no one.
func CallersOf(key, listen string, hosts, origins []string) Callers {
	c := Callers{Key: key, Hosts: hosts, Origins: origins}
	if host, _, err := net.SplitHostPort(listen); err == nil && host != "" && !net.ParseIP(host).IsUnspecified() {
		c.Hosts = append(slices.Clone(hosts), host)
	}
	return c
}

// Faults lists what is wrong with the names and the pages that are configured.
func (c Callers) Faults() (faults []error) {
	for _, h := range c.Hosts {
		if h == "" || strings.ContainsAny(h, "/*") {
			faults = append(faults, config.Wrong("hosts", c.Hosts,
				"must be names or addresses, without scheme or wildcards"))
		}
	}
	for _, o := range c.Origins {
		if u, err := url.Parse(o); err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != o {
			faults = append(faults, config.Wrong("origins", c.Origins, "must be of the form scheme://host[:port]"))
		}
	}
	return faults
}

// Check tells why a request is refused on its header: ForeignHost, ForeignOrigin or BadContentType, and a sentence. It
// reads nothing of the body.
func (c Callers) Check(r *http.Request) (outcome.Reason, error) {
	if !c.AnyHost && !c.isOwnName(r) {
		return ForeignHost, fmt.Errorf("the request calls this process %q, which is no name of it; see %s.hosts",
			r.Host,
			c.Key)
	}
	origins := r.Header.Values("Origin")
	for _, o := range origins {
		if !slices.ContainsFunc(c.Origins, func(allowed string) bool { return strings.EqualFold(allowed, o) }) {
			return ForeignOrigin, fmt.Errorf("pages of %q may not call this process; %s", o, c.remedy())
		}
	}
	// A browser says so where a page of another site, or of another port of this one, makes it ask without telling the
	// page's origin.
	if site := r.Header.Get("Sec-Fetch-Site"); len(origins) == 0 && site != "" && site != "same-origin" &&
		site != "none" {
		return ForeignOrigin, fmt.Errorf("a page of another origin (%s) may not call this process; %s", site,
			c.remedy())
	}
	// Pages may send forms and text anywhere unasked, JSON they may not.
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); r.Method == http.MethodPost &&
		(err != nil || kind != "application/json") {
		return BadContentType, errors.New("the content type must be application/json: send the header Content-Type: " +
			"application/json")
	}
	return "", nil
}

// remedy is what to do about a page that is refused. No page may be allowed to call an ops listener.
func (c Callers) remedy() string {
	if c.Key == opsSection {
		return "enter the address by hand in place of following a link"
	}
	return "see " + c.Key + ".origins"
}

// isOwnName reports whether a request calls this process by a name of it. The address that it came to is one, since no
// name server can make a page's name of it.
func (c Callers) isOwnName(r *http.Request) bool {
	host := hostOf(r.Host)
	ip := net.ParseIP(host)
	if host == "localhost" || ip.IsLoopback() {
		return true
	}
	if at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok && ip != nil && at.IP.Equal(ip) {
		return true
	}
	return slices.ContainsFunc(c.Hosts, func(h string) bool { return hostOf(h) == host })
}

// Guard serves with next what Check lets through, and answers others with 403 or 415.
func (c Callers) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		why, err := c.Check(r)
		switch {
		case err == nil:
			next.ServeHTTP(w, r)
		case why == BadContentType:
			http.Error(w, err.Error(), http.StatusUnsupportedMediaType)
		default:
			http.Error(w, err.Error(), http.StatusForbidden)
		}
	})
}

// hostOf is the name or address of a Host header or of a configured name, without its port.
func hostOf(hostport string) string {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}
