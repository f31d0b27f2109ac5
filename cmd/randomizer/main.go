// Command randomizer runs the randomizer: see randomizer --help.
package main

import (
	"os"

	"github.com/riffle-dp/riffle/internal/container"
	"github.com/riffle-dp/riffle/internal/randomizer"
	"github.com/riffle-dp/riffle/internal/service"
)

func main() {
	os.Exit(service.Main(container.Equip(service.Command(randomizer.Role()), "http://127.0.0.1:9403/readyz")))
}
