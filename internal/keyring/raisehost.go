package keyring

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// RaiseHost gives a randomizer host a credential for more devices; its key, its user at the broker and the numbers of
// its devices stay. A host's credentials are numbered by how many devices they cover: each covers more than the one
// before, or as many for longer, and whoever knows of a device that only a later one covers refuses an earlier one. The
// registrar's folder and the host's must be there.
func RaiseHost(root string, h HostOptions) error {
	if err := h.check(); err != nil {
		return err
	}
	r, err := LoadRegistrar(root)
	if err != nil {
		return err
	}
	old, err := loadHost(root, h.Name, r.Bundle)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: no folder of a host %q is in %s: riffle keygen add-host admits a new one", ErrOptions,
			h.Name, root)
	}
	if err != nil {
		return err
	}
	if _, listed := r.Bundle.list(h.Name, old.first); listed.Withdrawn {
		return fmt.Errorf("%w: host %q was withdrawn; admit it under another name", ErrOptions, h.Name)
	}
	if h.NotAfter == 0 {
		h.NotAfter = old.notAfter
	}
	if h.Devices < old.devices || h.Devices == old.devices && h.NotAfter <= old.notAfter {
		return fmt.Errorf("%w: host %q covers %d devices already, and their number can only be raised: those that "+
			"took part keep their places", ErrOptions, h.Name, old.devices)
	}
	c := wire.Credential{Deployment: r.Bundle.Deployment, HostKey: old.key, Devices: h.Devices, NotAfter: h.NotAfter}
	if !bytes.Equal(old.first, c.HostKey) {
		c.FirstKey = old.first
	}
	signed, _, err := wire.Sign(&c, r.Identity)
	if err != nil {
		return err
	}
	return keyfile.Replace(filepath.Join(hostFolder(root, h.Name), credentialFile), signed, 0o644)
}

// ListHosts lists the hosts whose folders are there, with the devices that their credentials cover, by name. A folder
// that cannot be read is left out.
func ListHosts(root string) (hosts []HostOptions, err error) {
	bundle, err := LoadBundle(root)
	if err != nil {
		return nil, err
	}
	folders, err := filepath.Glob(hostFolder(root, "*"))
	if err != nil {
		return nil, err
	}
	for _, folder := range folders {
		_, c, err := readHost(folder, bundle)
		if err != nil {
			continue
		}
		name := strings.TrimPrefix(filepath.Base(folder), Randomizer+"-")
		hosts = append(hosts, HostOptions{Name: name, Devices: c.Devices, NotAfter: c.NotAfter})
	}
	return hosts, nil
}
