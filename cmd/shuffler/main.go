// Command shuffler runs the shuffler: see shuffler --help.
package main

import (
	"os"

	"github.com/riffle-dp/riffle/internal/container"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/shuffler"
	"github.com/riffle-dp/riffle/internal/shuffler/work"
	"github.com/riffle-dp/riffle/internal/version"
)

func main() {
	cmd := container.Equip(role.Command(shuffler.Role()), "http://127.0.0.1:9401/readyz")
	cmd.AddCommand(container.Equip(role.Command(work.Role()), "http://127.0.0.1:9404/readyz"))
	os.Exit(role.Main(version.Flag(cmd)))
}
