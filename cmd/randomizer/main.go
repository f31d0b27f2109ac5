// Command randomizer runs the randomizer: see randomizer --help.
package main

import (
	"os"

	"github.com/riffle-dp/riffle/internal/container"
	"github.com/riffle-dp/riffle/internal/randomizer"
	"github.com/riffle-dp/riffle/internal/service"
	"github.com/riffle-dp/riffle/internal/version"
)

func main() {
	cmd := container.Equip(service.Command(randomizer.Role()), "http://127.0.0.1:9403/readyz")
	os.Exit(service.Main(version.Flag(cmd)))
}
