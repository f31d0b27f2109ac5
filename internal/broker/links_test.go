package broker_test

import (
	"os/exec"
	"strings"
	"testing"
)

func TestNoRoleLinksTheServer(t *testing.T) {
	const cmd, server = "github.com/riffle-dp/riffle/cmd/", "github.com/nats-io/nats-server/"
	links := func(program string) bool {
		list := exec.CommandContext(t.Context(), "go", "list", "-deps", cmd+program)
		packages, err := list.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", program, err, packages)
		}
		return strings.Contains(string(packages), server)
	}
	for _, program := range []string{"randomizer", "shuffler", "analyzer", "door", "healthcheck"} {
		if links(program) {
			t.Errorf("%s links nats-server: see go list -deps %s%s", program, cmd, program)
		}
	}
	if !links("riffle") {
		t.Error("riffle does not link nats-server under this name: the test looks for the wrong one")
	}
}
