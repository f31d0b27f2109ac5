package api_test

import (
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/randomizer/api"
)

// Who could reach a host that neither encrypts nor tells callers apart could read ledgers and spend people's records.
// So a host does not start on an address that other machines reach unless it does both, or something in front of it
// does. On the machine itself all is allowed.
func TestWhereAHostMayListen(t *testing.T) {
	pair := api.TLSSettings{Certificate: "c", Key: "k"}
	mutual := api.TLSSettings{Certificate: "c", Key: "k", ClientCA: "a"}
	none := api.TLSSettings{}
	const tokens = "t"
	for _, c := range []struct {
		listen, tokens string
		tls            api.TLSSettings
		remote         bool
		group          string
		want           string // in the one fault; empty: none
	}{
		{listen: "127.0.0.1:8400"},
		{listen: "localhost:0", tokens: tokens},
		{listen: "[::1]:8400", tls: pair},
		{listen: "127.0.0.1:8400", tokens: tokens, tls: mutual},
		{listen: "127.0.0.1:8400", remote: true},

		{listen: "10.0.0.1:8400", want: "in the clear"},
		{listen: "0.0.0.0:8400", want: "in the clear"},
		{listen: ":8400", want: "in the clear"},
		{listen: "gate.example:8400", want: "in the clear"},
		{listen: "10.0.0.1:8400", tokens: tokens, want: "and tokens, in the clear"},
		{listen: "10.0.0.1:8400", tls: pair, want: "anybody who reaches it"},
		{listen: "10.0.0.1:8400", tls: pair, tokens: tokens},
		{listen: "10.0.0.1:8400", tls: mutual},
		{listen: ":8400", tls: mutual, tokens: tokens},
		{listen: "10.0.0.1:8400", remote: true},
		{listen: "10.0.0.1:8400", remote: true, tokens: tokens},
		{listen: "10.0.0.1:8400", remote: true, tls: pair},

		{listen: "unix:/run/api"},
		{listen: "unix:/run/api", tokens: tokens, group: "apps"},
		{listen: "unix:", want: "unix:/path"},
		{listen: "unix:/run/api", tls: pair, want: "takes no"},
		{listen: "unix:/run/api", remote: true, want: "takes no"},
		{listen: "127.0.0.1:8400", group: "apps", want: "for a Unix socket"},

		{listen: "127.0.0.1:8400", tls: api.TLSSettings{Certificate: "c"}, want: "together"},
		{listen: "127.0.0.1:8400", tls: api.TLSSettings{Key: "k"}, want: "together"},
		{listen: "127.0.0.1:8400", tls: api.TLSSettings{ClientCA: "a"}, want: "tls.client_ca"},
		{listen: "nothing", tls: none, want: "host:port"},
	} {
		s := api.Settings{Listen: c.listen, Tokens: c.tokens, TLS: c.tls, Remote: c.remote, Group: c.group}
		faults := s.Validate()
		switch {
		case c.want == "" && len(faults) > 0:
			t.Errorf("%+v: %v", c, faults)
		case c.want != "" && (len(faults) != 1 || !strings.Contains(faults[0].Error(), c.want)):
			t.Errorf("%+v: %v, want %q", c, faults, c.want)
		}
	}
}

// By any name a host may be called only where no page can show what it asks for.
func TestAnyNameWillDoWhereNoPageCanCall(t *testing.T) {
	for listen, want := range map[string]bool{"127.0.0.1:1": false, "unix:/run/api": true} {
		if got := (api.Settings{Listen: listen}).Callers(); got.AnyHost != want {
			t.Errorf("%s: %+v", listen, got)
		}
	}
	if got := (api.Settings{Listen: "127.0.0.1:1", Tokens: "t"}).Callers(); !got.AnyHost {
		t.Errorf("with tokens: %+v", got)
	}
}
