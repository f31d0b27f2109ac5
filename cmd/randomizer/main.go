// Command randomizer runs the randomizer: see randomizer --help.
package main

import (
	"os"

	"github.com/riffle-dp/riffle/internal/container"
	"github.com/riffle-dp/riffle/internal/randomizer"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/version"
)

func main() {
	cmd := container.Equip(role.Command(randomizer.Role()), "http://127.0.0.1:9403/readyz")
	os.Exit(role.Main(version.Flag(cmd)))
}
