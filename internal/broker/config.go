package broker

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nkeys"

	"github.com/riffle-dp/riffle/internal/bus"
)

// Options describes one broker. Zero values mean the documented default.
type Options struct {
	Dir   string                // where streams are kept; required
	Host  string                // default 127.0.0.1
	Port  int                   // 0: a free one (RenderConfig: 4222)
	Name  string                // server name; needed, and unique, in a cluster
	Users map[bus.Role][]string // public nkeys (U...) by role; several per role where several hosts play it
	// fsync before every acknowledgement: an acknowledged message survives power loss, not only a crash
	SyncAlways bool
	MaxStore   int64    // bytes on disk for all streams; 0: what the server finds free
	Monitor    string   // host:port of the server's own HTTP monitoring; empty: off
	TLS        *TLS     // nil: clear text, for loopback only
	Cluster    *Cluster // nil: a single server
}

// TLS names the server's certificate files.
type TLS struct {
	CertFile, KeyFile string
	CAFile            string // where set, clients must show a certificate that it signed
}

// Cluster makes the server one of several that replicate the streams.
type Cluster struct {
	Name   string
	Listen string   // host:port for the other servers
	Routes []string // nats-route:// URLs of the others
	TLS    *TLS     // with CAFile: servers prove who they are to each other
}

func (o Options) validate() error {
	var faults []error
	if o.Dir == "" {
		faults = append(faults, errors.New("broker: server directory missing"))
	}
	if o.Port < 0 || o.Port > 65535 {
		faults = append(faults, fmt.Errorf("broker: port %d out of range", o.Port))
	}
	seen := map[string]bus.Role{}
	for _, r := range slices.Sorted(maps.Keys(o.Users)) {
		if !slices.Contains(bus.Roles(), r) {
			faults = append(faults, fmt.Errorf("broker: unknown role %q; known are %v", r, bus.Roles()))
		}
		for _, k := range o.Users[r] {
			if !nkeys.IsValidPublicUserKey(k) {
				faults = append(faults, fmt.Errorf("broker: %s: %q is not a public user nkey (U...)", r, k))
			} else if other, dup := seen[k]; dup {
				faults = append(faults, fmt.Errorf("broker: key %s is given twice, to %s and %s; each role needs "+
					"its own", k, other, r))
			}
			seen[k] = r
		}
	}
	if len(o.Users[bus.Admin]) == 0 {
		faults = append(faults, errors.New("broker: no admin key: no one could provision the streams"))
	}
	if o.Cluster != nil && (o.Cluster.Name == "" || o.Cluster.Listen == "" || o.Name == "") {
		faults = append(faults, errors.New("broker: a cluster needs its name, a listen address, and a server name"))
	}
	return errors.Join(faults...)
}

// RenderConfig writes the nats-server configuration of these options: listeners, storage, and the table of rights as
// accounts, imports and user permissions. It holds no secret. An error names every fault.
func RenderConfig(o Options) (string, error) {
	if o.Port == 0 {
		o.Port = 4222
	}
	return render(o, strconv.Itoa(o.Port))
}

func render(o Options, port string) (string, error) {
	if err := o.validate(); err != nil {
		return "", err
	}
	if o.Host == "" {
		o.Host = "127.0.0.1"
	}
	w := &confWriter{}
	w.line("# Rendered from Riffle's table of rights. Change the table, not this file.")
	if o.Name != "" {
		w.pair("server_name", quote(o.Name))
	}
	w.pair("listen", quote(net.JoinHostPort(o.Host, port)))
	if o.Monitor != "" {
		w.pair("http", quote(o.Monitor))
	}
	w.pair("max_payload", strconv.Itoa(bus.MaxPayload))
	w.open("jetstream")
	w.pair("store_dir", quote(o.Dir))
	if o.SyncAlways {
		w.pair("sync_interval", "always")
	}
	if o.MaxStore > 0 {
		w.pair("max_file_store", strconv.FormatInt(o.MaxStore, 10))
	}
	// Batches are for an ingress, and a host could begin some and end none. What they have is staged beside the
	// streams: 32 of 256 of the largest reports take 1 GiB. While as many are open as may, reports are stored one by
	// one.
	w.open("limits")
	w.open("batch")
	w.pair("max_inflight_per_stream", "32")
	w.pair("max_msgs", strconv.Itoa(bus.MaxBatch))
	w.pair("timeout", quote("5s"))
	w.close()
	w.close()
	w.close()
	w.tls(o.TLS)
	if c := o.Cluster; c != nil {
		w.open("cluster")
		w.pair("name", quote(c.Name))
		w.pair("listen", quote(c.Listen))
		w.list("routes", c.Routes)
		// Clients keep to the addresses they were given. What servers would tell them of each other are addresses on
		// networks that a client may not reach, and under which no certificate is made out.
		w.pair("no_advertise", "true")
		w.tls(c.TLS)
		w.close()
	}
	w.open("accounts")
	accounts := map[bus.Role][]account{}
	for _, r := range bus.Roles() {
		accounts[r] = accountsOf(r, o.Users[r])
	}
	w.streams(accounts)
	for _, r := range bus.Roles()[1:] {
		for _, a := range accounts[r] {
			w.role(r, a, accounts)
		}
	}
	w.close()
	return w.String(), nil
}

// confWriter writes NATS configuration blocks.
type confWriter struct {
	strings.Builder
	depth int
}

func (w *confWriter) line(s string)          { fmt.Fprintf(w, "%s%s\n", strings.Repeat("  ", w.depth), s) }
func (w *confWriter) pair(key, value string) { w.line(key + ": " + value) }
func (w *confWriter) open(key string)        { w.line(key + " {"); w.depth++ }
func (w *confWriter) close()                 { w.depth--; w.line("}") }
func (w *confWriter) list(k string, s []string) {
	q := make([]string, len(s))
	for i := range s {
		q[i] = quote(s[i])
	}
	w.pair(k, "["+strings.Join(q, ", ")+"]")
}

// quote makes a string literal, in which a $ means nothing.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

func (w *confWriter) tls(t *TLS) {
	if t == nil {
		return
	}
	w.open("tls")
	w.pair("cert_file", quote(t.CertFile))
	w.pair("key_file", quote(t.KeyFile))
	if t.CAFile != "" {
		w.pair("ca_file", quote(t.CAFile))
		w.pair("verify", "true")
	}
	w.close()
}

// streams writes the account that holds every stream: the admin's users, and what it exports to whom.
func (w *confWriter) streams(accounts map[bus.Role][]account) {
	w.open(streamsAccount)
	w.pair("jetstream", "enabled")
	w.line("users: [")
	for _, k := range accounts[bus.Admin][0].users {
		w.user(k, bus.Admin, adminPublish, nil)
	}
	w.line("]")
	w.line("exports: [")
	type export struct {
		kind, subject string
		many          bool
	}
	var order []export
	to := map[export][]string{}
	for _, g := range Grants() {
		e := export{kind: "service", subject: g.remote(), many: g.Access == Call && g.many()}
		switch g.Access {
		case Ask, Serve, Within:
			continue
		case Watch:
			e.kind = "stream"
		}
		if _, ok := to[e]; !ok {
			order = append(order, e)
		}
		to[e] = append(to[e], names(accounts[g.Role])...)
	}
	for _, e := range order {
		if len(to[e]) == 0 { // an empty list would mean every account
			continue
		}
		replies := ""
		if e.many {
			replies = ", response_type: stream"
		}
		w.line(fmt.Sprintf("  {%s: %s, accounts: [%s]%s}", e.kind, quote(e.subject), strings.Join(to[e], ", "),
			replies))
	}
	w.line("]")
	w.close()
}

func names(accounts []account) []string {
	all := make([]string, len(accounts))
	for i, a := range accounts {
		all[i] = a.name
	}
	return all
}

// role writes one account of a role: its users with their permissions, its imports, and what it serves to other roles.
func (w *confWriter) role(r bus.Role, own account, accounts map[bus.Role][]account) {
	var publish, named, subscribe, imports, exports []string
	answers := false                // whether a user answers itself, from another process
	askers := map[string][]string{} // accounts that may ask, by what the role serves
	for _, g := range Grants() {
		if g.Role != r {
			continue
		}
		switch g.Access {
		case Publish:
			if g.Own {
				named = append(named, strings.TrimSuffix(g.local(), "*"))
			} else {
				publish = append(publish, g.local())
			}
			imports = append(imports, fmt.Sprintf("{service: {account: %s, subject: %s}}", streamsAccount,
				quote(g.remote())))
		case Call:
			publish = append(publish, g.local())
			imports = append(imports, fmt.Sprintf("{service: {account: %s, subject: %s}, to: %s}", streamsAccount,
				quote(g.remote()), quote(g.local())))
		case Watch:
			subscribe = append(subscribe, g.local())
			imports = append(imports, fmt.Sprintf("{stream: {account: %s, subject: %s}}", streamsAccount,
				quote(g.remote())))
		case Ask:
			publish = append(publish, g.local())
			for _, peer := range accounts[g.Peer] {
				imports = append(imports, fmt.Sprintf("{service: {account: %s, subject: %s}}", peer.name,
					quote(g.Subject)))
			}
		case Within:
			publish = append(publish, g.local())
			subscribe = append(subscribe, g.Subject+" "+bus.QueueLead)
			answers = true
		case Serve:
			// Requests arrive with a reply subject of the server's own making, under _R_, which leads back to the
			// asker.
			askers[g.Subject] = append(askers[g.Subject], names(accounts[g.Peer])...)
		}
	}
	for _, subject := range slices.Sorted(maps.Keys(askers)) {
		subscribe = append(subscribe, subject+" "+bus.QueueEnrol)
		publish = append(publish, "_R_.>")
		if of := askers[subject]; len(of) > 0 { // an empty list would mean every account
			exports = append(exports, fmt.Sprintf("{service: %s, accounts: [%s]}", quote(subject),
				strings.Join(of, ", ")))
		}
	}
	w.open(own.name)
	w.line("users: [")
	for _, k := range own.users {
		allowed := slices.Clone(publish)
		for _, prefix := range named {
			allowed = append(allowed, prefix+k)
		}
		if answers {
			allowed = append(allowed, bus.Inbox(r, k)+".>")
		}
		w.user(k, r, allowed, subscribe)
	}
	w.line("]")
	for _, block := range []struct {
		key   string
		lines []string
	}{{"exports", exports}, {"imports", imports}} {
		if len(block.lines) == 0 {
			continue
		}
		w.line(block.key + ": [")
		for _, l := range block.lines {
			w.line("  " + l)
		}
		w.line("]")
	}
	w.close()
}

// user writes one user. Its inbox is its own: not even another user of the same role may listen there.
func (w *confWriter) user(key string, r bus.Role, publish, subscribe []string) {
	w.line("  {")
	w.depth++
	w.pair("nkey", key)
	w.open("permissions")
	w.open("publish")
	w.list("allow", publish)
	w.close()
	w.open("subscribe")
	w.list("allow", append([]string{bus.Inbox(r, key) + ".>"}, subscribe...))
	w.close()
	w.close()
	w.depth--
	w.line("  }")
}

// WriteConfig renders the configuration into a file, for a server in a container.
func WriteConfig(path string, o Options) error {
	conf, err := RenderConfig(o)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	if err := os.WriteFile(path, []byte(conf), 0o644); err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	return nil
}
