package wire

import (
	"errors"
	"fmt"
)

// HostKeys are the keys that a host has had, where it has had more than one or has been withdrawn.
type HostKeys struct {
	// First is the key with which the registrar first admitted the host. Its devices are known by it for the life of
	// the deployment, so that a new key gives no device a second place.
	First [32]byte
	// Then are the keys that replaced it, in order. The last one is in force.
	Then [][32]byte
	// Withdrawn: none of them is in force.
	Withdrawn bool
}

// Hosts tells the keys of hosts that are in force from those that were replaced or withdrawn. A host that it does not
// list has its first key. Nil lists none. It is not changed after NewHosts, and safe for concurrent use.
type Hosts struct {
	first   map[[32]byte][32]byte // of every listed key, that of its host
	retired map[[32]byte]bool     // keys that are not in force
}

// ErrHosts means a list of hosts in which one key occurs twice, or a host that needs no place in it.
var ErrHosts = errors.New("the list of hosts contradicts itself")

// NewHosts reads a list of hosts. The error is ErrHosts.
func NewHosts(list []HostKeys) (*Hosts, error) {
	h := &Hosts{first: map[[32]byte][32]byte{}, retired: map[[32]byte]bool{}}
	for _, host := range list {
		if len(host.Then) == 0 && !host.Withdrawn {
			return nil, fmt.Errorf("%w: a host whose first key is in force", ErrHosts)
		}
		keys := append([][32]byte{host.First}, host.Then...)
		for i, key := range keys {
			if _, twice := h.first[key]; twice {
				return nil, fmt.Errorf("%w: one key is in it twice", ErrHosts)
			}
			h.first[key] = host.First
			h.retired[key] = host.Withdrawn || i < len(keys)-1
		}
	}
	return h, nil
}

// First gives the first key of the host that has this key. The error says that the key is not in force any more.
func (h *Hosts) First(key [32]byte) (first [32]byte, err error) {
	if h == nil {
		return key, nil
	}
	if h.retired[key] {
		return first, errors.New("the host's key was replaced or withdrawn")
	}
	if first, listed := h.first[key]; listed {
		return first, nil
	}
	return key, nil
}

// Past is the same list with every key in force: for those who judge what was signed before keys were replaced.
func (h *Hosts) Past() *Hosts {
	if h == nil {
		return nil
	}
	return &Hosts{first: h.first}
}

// admits gives the key by which a credential's devices are known. It refuses a credential whose key is not in force,
// and one that names another first key than the list: whoever holds it could take part a second time.
func (h *Hosts) admits(c *Credential) (first [32]byte, err error) {
	first, err = h.First([32]byte(c.HostKey))
	if err != nil {
		return first, err
	}
	if first != c.first() {
		return [32]byte{}, errors.New("the trust bundle does not list the key that the host was first admitted with")
	}
	return first, nil
}

// first is the key by which the devices of a checked credential are known, as the credential says.
func (c *Credential) first() [32]byte {
	if len(c.FirstKey) == 0 {
		return [32]byte(c.HostKey)
	}
	return [32]byte(c.FirstKey)
}
