// Command analyzer runs the analyzer: see analyzer --help.
package main

import (
	"os"

	"github.com/riffle-dp/riffle/internal/analyzer"
	"github.com/riffle-dp/riffle/internal/container"
	"github.com/riffle-dp/riffle/internal/role"
)

func main() {
	os.Exit(role.Main(container.Equip(role.Command(analyzer.Role()), "http://127.0.0.1:9402/readyz")))
}
