package testbed

import (
	"testing"

	"github.com/riffle-dp/riffle/internal/testing/parallel"
)

// RoleTests is the TestMain of a role's package: twelve tests at a time, for they wait more than they work. It returns
// the exit code.
func RoleTests(m *testing.M) int {
	parallel.Tests("12")
	return m.Run()
}
