// Command issuer credentials installations: see issuer --help.
package main

import (
	"os"

	"github.com/riffle-dp/riffle/internal/container"
	"github.com/riffle-dp/riffle/internal/issuer"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/version"
)

func main() {
	cmd := container.Equip(role.Command(issuer.Role()), "http://127.0.0.1:9407/readyz")
	os.Exit(role.Main(version.Flag(cmd)))
}
