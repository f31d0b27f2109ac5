package keyring

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
)

// RotateUser replaces the broker user of a role that has one, in case its credential may be in other hands. The old
// seed is deleted, and the broker refuses the old user once it has read the users file again. The role's signing and
// encryption keys stay.
func RotateUser(root, role string) error {
	single := []string{Admin, Analyzer, Shuffler, Auditor}
	if !slices.Contains(single, role) {
		return fmt.Errorf("%w: %q is not one of %v; to replace the credential of a host of devices, take its user "+
			"out of %s and admit the host again under another name", ErrOptions, role, single, UsersFile)
	}
	users, err := LoadUsers(root)
	if err != nil {
		return err
	}
	path := filepath.Join(root, role, seedFile)
	if _, err := keyfile.LoadSeed(path); err != nil { // the folder must be one with this role's keys
		return err
	}
	seed, public, err := keyfile.NewSeed()
	if err != nil {
		return err
	}
	if err := keyfile.WriteSeed(path+".new", seed); err != nil {
		return err
	}
	users[role] = []string{public}
	if err := writeUsers(root, users); err != nil {
		return errors.Join(err, os.Remove(path+".new"))
	}
	return os.Rename(path+".new", path)
}
