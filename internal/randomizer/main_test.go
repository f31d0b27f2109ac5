package randomizer

import (
	"os"
	"testing"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
)

func TestMain(m *testing.M) { os.Exit(testbed.RoleTests(m)) }
