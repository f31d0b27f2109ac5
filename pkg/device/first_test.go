package device

import (
	"bytes"
	"testing"

	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// A host whose key was replaced finds its devices in panels by its first key, as the shuffler does.
func TestADeviceKeepsItsRankUnderANewKey(t *testing.T) {
	var ids [3]*seal.Identity
	for i := range ids {
		var err error
		if ids[i], err = seal.NewIdentity(bytes.Repeat([]byte{byte(i + 1)}, 32)); err != nil {
			t.Fatal(err)
		}
	}
	registrar, first, now := ids[0], ids[1], ids[2]
	credential, _, err := wire.Sign(&wire.Credential{Deployment: "demo", HostKey: now.Public(), Devices: 1 << 16,
		FirstKey: first.Public()}, registrar)
	if err != nil {
		t.Fatal(err)
	}
	c := &Core{c: Config{Deployment: "demo", Identity: now, Credential: credential}}
	const registered, size = 10_000, 10
	a := &Announced{Announcement: &plan.Announcement{Cohort: plan.Cohort{Size: size}}}
	var contribution [32]byte
	seed, found := panel.NewSeed([32]byte{1}, contribution[:]), 0
	for number := range uint32(1 << 16) {
		rank := seed.Rank(panel.Device{Host: [32]byte(first.Public()), Number: number})
		if panel.Plausible(rank, registered, size, false) {
			continue // it may be in the panel or not
		}
		found++
		if err := c.plausible(a, number, seed, registered, &wire.EnrolReply{Enrolled: true}); err != nil {
			t.Errorf("device %d: %v", number, err)
		}
	}
	if found == 0 {
		t.Error("no device is surely in the panel")
	}
}
