// Command analyzer runs the analyzer: see analyzer --help.
package main

import (
	"os"

	"github.com/riffle-dp/riffle/internal/analyzer"
	"github.com/riffle-dp/riffle/internal/container"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/version"
)

func main() {
	cmd := container.Equip(role.Command(analyzer.Role()), "http://127.0.0.1:9402/readyz")
	cmd.AddCommand(container.Equip(role.Command(analyzer.WorkerRole()), "http://127.0.0.1:9405/readyz"))
	os.Exit(role.Main(version.Flag(cmd)))
}
