package broker_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/riffle-dp/riffle/"

// needs lists the packages that a package of this module links, itself included.
func needs(t *testing.T, path string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", module+path).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", path, err, out)
	}
	return strings.Fields(string(out))
}

func TestNoRoleLinksTheServer(t *testing.T) {
	server := func(p string) bool { return strings.HasPrefix(p, "github.com/nats-io/nats-server/") }
	for _, program := range []string{"randomizer", "shuffler", "analyzer", "door", "healthcheck"} {
		if slices.ContainsFunc(needs(t, "cmd/"+program), server) {
			t.Errorf("%s links nats-server", program)
		}
	}
	if !slices.ContainsFunc(needs(t, "cmd/riffle"), server) {
		t.Error("riffle does not link nats-server under this name: the test looks for the wrong one")
	}
}

func TestTheBusNeedsNoOtherRoom(t *testing.T) {
	for _, p := range needs(t, "internal/bus") {
		if strings.HasPrefix(p, module+"internal/") && p != module+"internal/bus" {
			t.Errorf("the bus imports %s", p)
		}
	}
}
