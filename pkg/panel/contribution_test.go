package panel_test

import (
	"encoding/hex"
	"testing"

	"github.com/riffle-dp/riffle/pkg/panel"
)

// A contribution follows from the secret, the deployment, the epoch and the announcement before it, and each of them
// changes it.
func TestContributionsDependOnAllThatTheyAreOf(t *testing.T) {
	of := func(secret byte, deployment string, epoch uint64, previous []byte) string {
		c := panel.Contribution([32]byte{secret}, deployment, epoch, previous)
		return hex.EncodeToString(c[:])
	}
	digest := make([]byte, 32)
	first := of(1, "d", 1, nil)
	if want := "19879d566da117dfc790193b42fef2a8b1b10e3d7947c02be8fe74d878b49cc4"; first != want {
		t.Errorf("the contribution is %s, want %s", first, want)
	}
	seen := map[string]string{first: "the first one"}
	for name, c := range map[string]string{
		"another secret": of(2, "d", 1, nil), "another deployment": of(1, "e", 1, nil),
		"another epoch": of(1, "d", 2, nil),
		"another past":  of(1, "d", 1, digest), "a longer name": of(1, "d\x00", 1, nil),
	} {
		if same, twice := seen[c]; twice {
			t.Errorf("%s gives what %s gives", name, same)
		}
		seen[c] = name
	}
}
