package keyring

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
)

// RotateAuthority replaces the authority that vouches for the brokers, and the key and certificate of every broker
// whose folder is there, under the same names. Whoever has the new ca.pem and no other refuses all brokers' keys from
// before. It returns the names of the brokers. The registrar's folder must be there. Where it was interrupted, it may
// be run again.
func RotateAuthority(root string) ([]string, error) { return rotateAuthority(root, time.Now()) }

func rotateAuthority(root string, now time.Time) (names []string, err error) {
	r, err := LoadRegistrar(root)
	if err != nil {
		return nil, err
	}
	if _, err := keyfile.LoadPrivate(filepath.Join(root, registrar, authorityKeyFile)); err != nil {
		return nil, err // a deployment without an authority does not get one by this
	}
	brokers, err := brokersOf(root)
	if err != nil {
		return nil, err
	}
	staged := filepath.Join(root, "authority.new")
	if err := os.RemoveAll(staged); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(staged)) }()
	if err := keyfile.Folder(staged); err != nil {
		return nil, err
	}
	if err := newAuthority(staged, r.Bundle.Deployment, now); err != nil {
		return nil, err
	}
	files := []string{AuthorityFile, filepath.Join(registrar, authorityKeyFile)}
	for _, b := range brokers {
		if err := addBroker(staged, b, now); err != nil {
			return nil, err
		}
		folder := filepath.Base(BrokerFolder(root, b.Name))
		files = append(files, filepath.Join(folder, serverKeyFile), filepath.Join(folder, certificateFile))
		names = append(names, b.Name)
	}
	for _, name := range files {
		if err := os.Rename(filepath.Join(staged, name), filepath.Join(root, name)); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// brokersOf reads from their certificates which brokers there are, and under which names they are found.
func brokersOf(root string) (all []BrokerOptions, err error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name, is := strings.CutPrefix(e.Name(), "broker-")
		if !is || !e.IsDir() {
			continue
		}
		path := filepath.Join(root, e.Name(), certificateFile)
		c, err := readCertificate(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: %w: a broker without its certificate has no names", path, ErrCertificate)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, BrokerOptions{Name: name, Hosts: hostsOf(c)})
	}
	slices.SortFunc(all, func(a, b BrokerOptions) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}
