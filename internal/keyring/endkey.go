package keyring

import (
	"fmt"
	"maps"
)

// EndKey writes into the bundle the last epoch for which a role's signing key is good, for audits. An end that is
// there already can only be brought forward.
func EndKey(root, role string, epoch uint64) error {
	bundle, err := LoadBundle(root)
	if err != nil {
		return err
	}
	if old, ended := bundle.Until[role]; ended && epoch > old {
		return fmt.Errorf("%w: the key of the %s ended with epoch %d already", ErrOptions, role, old)
	}
	bundle.Until = maps.Clone(bundle.Until)
	if bundle.Until == nil {
		bundle.Until = map[string]uint64{}
	}
	bundle.Until[role] = epoch
	return replaceBundle(root, bundle)
}
