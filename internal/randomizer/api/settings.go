package api

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/config"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/listen"
)

// Settings say where apps find a host, and which of them it serves.
type Settings struct {
	Listen string `key:"listen" doc:"Where the API for apps listens: host:port, or unix:/path of a socket, which only its owner may connect to. It carries people's data. An address that other machines reach needs tls, and tokens or tls.client_ca; or allow_remote. Port 0 takes a free one."`
	Group  string `key:"socket_group" doc:"Group, by name or number, whose members may connect to the Unix socket too. Empty: its owner alone."`
	Tokens string `key:"tokens" doc:"File of bearer tokens, one a line behind the name of who has it: every request must show one of them. The file is read again when it changes; while it cannot be used no request is served. Empty: callers are not told apart."`

	TLS TLSSettings `key:"tls"`

	Hosts   []string `key:"hosts" doc:"Names and addresses, without port, by which requests may call this host besides localhost, loopback addresses and what listen says. Requests under other names are refused; otherwise a web page whose name resolves to this host could read ledgers. With tokens, and on a Unix socket, any name will do."`
	Origins []string `key:"origins" doc:"Web pages that may call this host, as scheme://host[:port]. A browser names its page's origin, and any that is not listed is refused; other programs name none."`

	DryRun bool `key:"dry_run" doc:"For building an app: decide with the announced policy, enrol nobody and send nothing. Each answer has dry_run, and POST /v1/check says what is wrong with a decision's body. It needs a state folder of its own. Never send it what real people see: whether they are asked for must not depend on it."`

	Remote bool `key:"allow_remote" doc:"Allow listen to be an address that other machines can reach without tls, or without tokens and tls.client_ca. Set this only where something in front of it authenticates and encrypts."`
}

// TLSSettings are the files of a listener's TLS.
type TLSSettings struct {
	Certificate string `key:"certificate" doc:"PEM file of the API's certificate chain. It is read again when it changes, as are the other files. Empty: no TLS."`
	Key         string `key:"key" doc:"PEM file of the certificate's private key, which not everybody on the machine may read."`
	ClientCA    string `key:"client_ca" doc:"PEM file of the authorities that vouch for callers, each of whom must show a certificate. Empty: callers show none."`
}

// unix is the path of the socket that Listen names.
func (s Settings) unix() (path string, ok bool) { return strings.CutPrefix(s.Listen, "unix:") }

// Validate lists what is wrong. Whoever can reach the API can spend a person's only record and read every ledger. So an
// address that other machines reach is refused unless it is encrypted and tells its callers apart, here or, with
// allow_remote, in front of it.
func (s Settings) Validate() (faults []error) {
	path, socket := s.unix()
	tlsOn, told := s.TLS.Certificate != "", s.Tokens != "" || s.TLS.ClientCA != ""
	if tlsOn != (s.TLS.Key != "") {
		faults = append(faults, config.Conflict("tls.certificate", s.TLS.Certificate, "must be given together with",
			"tls.key", s.TLS.Key))
	}
	if s.TLS.ClientCA != "" && !tlsOn {
		faults = append(faults, config.Conflict("tls.client_ca", s.TLS.ClientCA, "needs", "tls.certificate", ""))
	}
	switch {
	case socket && path == "":
		faults = append(faults, config.Wrong("listen", s.Listen, "must be host:port or unix:/path"))
	case socket && tlsOn:
		faults = append(faults, config.Conflict("listen", s.Listen, "is a Unix socket, and takes no",
			"tls.certificate", s.TLS.Certificate))
	case socket && s.Remote:
		faults = append(faults, config.Conflict("listen", s.Listen, "is a Unix socket, which no other machine "+
			"reaches, and takes no", "allow_remote", s.Remote))
	case socket:
	case s.Group != "":
		faults = append(faults, config.Conflict("socket_group", s.Group, "is for a Unix socket, and not for", "listen",
			s.Listen))
	}
	if !socket {
		host, _, err := net.SplitHostPort(s.Listen)
		ip := net.ParseIP(host)
		switch remote := host != "localhost" && !ip.IsLoopback(); {
		case err != nil:
			faults = append(faults, config.Wrong("listen", s.Listen, "must be host:port or unix:/path"))
		case remote && !s.Remote && !tlsOn:
			faults = append(faults, config.Conflict("listen", s.Listen, "must be on loopback while", "allow_remote",
				s.Remote).Because("without tls.certificate the API carries people's data, and tokens, in the clear"))
		case remote && !s.Remote && !told:
			faults = append(faults, config.Conflict("listen", s.Listen, "must be on loopback while", "allow_remote",
				s.Remote).Because("without tokens and tls.client_ca anybody who reaches it reads ledgers and spends "+
				"people's records"))
		}
	}
	return append(faults, role.Callers{Hosts: s.Hosts, Origins: s.Origins}.Faults()...)
}

// Callers are who may call the API. A page can show no token, and reaches no socket, so that it does not matter what
// name it gives to this host.
func (s Settings) Callers() role.Callers {
	c := role.CallersOf("api", s.Listen, s.Hosts, s.Origins)
	_, socket := s.unix()
	c.AnyHost = socket || s.Tokens != ""
	return c
}

// Unusable lists the files of tokens and of TLS that cannot be used as they are, under the keys of a host's settings.
func (s Settings) Unusable() (faults []error) {
	unheard := func(error) {}
	if s.Tokens != "" {
		if _, err := listen.OpenTokens(s.Tokens, unheard); err != nil {
			faults = append(faults, config.Wrong("api.tokens", s.Tokens, "cannot be used").From(err))
		}
	}
	if s.TLS.Certificate != "" {
		if _, err := listen.TLS(s.TLS.Certificate, s.TLS.Key, s.TLS.ClientCA, unheard); err != nil {
			faults = append(faults, config.Wrong("api.tls.certificate", s.TLS.Certificate, "cannot be used").From(err).
				Given("api.tls.key", "api.tls.client_ca"))
		}
	}
	return faults
}

// open listens as the settings say, and reads the tokens; nil where there are none. What changes in the files later is
// logged.
func (s Settings) open(log zerolog.Logger) (l net.Listener, tokens *listen.Tokens, err error) {
	heard := func(key, otherwise string) func(error) {
		return func(err error) {
			if err != nil {
				log.Error().Err(err).Str("setting", key).Str("meanwhile", otherwise).
					Msg("a file changed and cannot be used")
				return
			}
			log.Info().Str("setting", key).Msg("a file changed and was read again")
		}
	}
	if s.Tokens != "" {
		if tokens, err = listen.OpenTokens(s.Tokens, heard("api.tokens", "no request is served")); err != nil {
			return nil, nil, fmt.Errorf("api.tokens: %w", err)
		}
	}
	if path, socket := s.unix(); socket {
		l, err = listen.Unix(path, s.Group)
	} else {
		l, err = net.Listen("tcp", s.Listen)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("api.listen: %w; is another randomizer running?", err)
	}
	if s.TLS.Certificate != "" {
		config, err := listen.TLS(s.TLS.Certificate, s.TLS.Key, s.TLS.ClientCA, heard("api.tls",
			"the certificate before it stays in force; without authorities of callers nobody is let in"))
		if err != nil {
			_ = l.Close()
			return nil, nil, fmt.Errorf("api.tls: %w", err)
		}
		l = tls.NewListener(l, config)
	}
	return l, tokens, nil
}

// Open makes the API of a host as the settings say, with its listener.
func Open(h Host, s Settings, log zerolog.Logger) (*API, net.Listener, error) {
	l, tokens, err := s.open(log)
	if err != nil {
		return nil, nil, err
	}
	return New(h, Access{s.Callers(), tokens}, s.DryRun, DefaultBounds()), l, nil
}
