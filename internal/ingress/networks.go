package ingress

import (
	"net/http"
	"net/netip"
	"strings"
)

// networks tell where requests come from, as far as it is looked at: the network of the client's address, /24 or /64,
// or the relay that it came over. It is held against the rates and forgotten; nothing logs, counts or stores it.
type networks struct {
	proxies []netip.Prefix // whose word on where a request came from counts
	relays  []netip.Prefix // who send for many people
}

// of is where a request comes from, and whether that is a relay.
func (n networks) of(r *http.Request) (from netip.Prefix, relay bool) {
	address := peer(r.RemoteAddr)
	// Each proxy appends whom it heard: the last one that is no proxy of ours is the client, and what is before it
	// anybody can have written.
	said := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(said) - 1; i >= 0 && within(n.proxies, address); i-- {
		next, err := netip.ParseAddr(strings.TrimSpace(said[i]))
		if err != nil {
			break
		}
		address = next.Unmap().WithZone("")
	}
	return network(address), within(n.relays, address)
}

// peer is the address of host:port.
func peer(hostport string) netip.Addr {
	at, err := netip.ParseAddrPort(hostport)
	if err != nil {
		return netip.Addr{} // what is not on the Internet has one network
	}
	return at.Addr().Unmap().WithZone("")
}

// network is the /24 or /64 of an address.
func network(a netip.Addr) netip.Prefix {
	bits := 64
	if a.Is4() {
		bits = 24
	}
	p, _ := a.Prefix(bits) // the zero prefix of no address
	return p
}

func within(all []netip.Prefix, a netip.Addr) bool {
	for _, p := range all {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// parseNetworks reads addresses and prefixes.
func parseNetworks(texts []string) (all []netip.Prefix, err error) {
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if a, bad := netip.ParseAddr(text); bad == nil {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, p.Masked())
	}
	return all, nil
}
