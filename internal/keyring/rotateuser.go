package keyring

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
)

// RotateUser replaces the broker user of a role, in case its credential may be in other hands. role is the name of the
// folder with its seed: Admin, Analyzer, Shuffler, Ingress, Auditor, or randomizer-<host>. The old seed is deleted, and
// the broker refuses the old user once it has read the users file again. The role's signing and encryption keys stay.
func RotateUser(root, role string) error {
	single := []string{Admin, Analyzer, Shuffler, Ingress, Auditor}
	kind := role
	if host, is := strings.CutPrefix(role, Randomizer+"-"); is {
		if err := checkName(ErrOptions, "a host", host); err != nil {
			return err
		}
		kind = Randomizer
	} else if !slices.Contains(single, role) {
		return fmt.Errorf("%w: %q is not one of %v, and not %s-HOST", ErrOptions, role, single, Randomizer)
	}
	users, err := LoadUsers(root)
	if err != nil {
		return err
	}
	path := filepath.Join(root, role, seedFile)
	old, err := publicUser(path) // the folder must be one with this role's keys
	if err != nil {
		return err
	}
	seed, public, err := keyfile.NewSeed()
	if err != nil {
		return err
	}
	if err := os.Remove(path + ".new"); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a run that was ended
		return err
	}
	if err := keyfile.WriteSeed(path+".new", seed); err != nil {
		return err
	}
	if kind != Randomizer {
		users[kind] = nil // whatever users it had
	}
	users[kind] = append(without(users[kind], old), public)
	if err := writeUsers(root, users); err != nil {
		return errors.Join(err, os.Remove(path+".new"))
	}
	return os.Rename(path+".new", path)
}

// publicUser is the public nkey of the seed in a file.
func publicUser(path string) (string, error) {
	seed, err := keyfile.LoadSeed(path)
	if err != nil {
		return "", err
	}
	return keyfile.PublicUser(seed)
}

func without(users []string, user string) []string {
	return slices.DeleteFunc(users, func(u string) bool { return u == user })
}
