// Command analyzer runs the analyzer: see analyzer --help.
package main

import (
	"os"

	"github.com/riffle-dp/riffle/internal/analyzer"
	"github.com/riffle-dp/riffle/internal/container"
	"github.com/riffle-dp/riffle/internal/service"
	"github.com/riffle-dp/riffle/internal/version"
)

func main() {
	cmd := container.Equip(service.Command(analyzer.Role()), "http://127.0.0.1:9402/readyz")
	os.Exit(service.Main(version.Flag(cmd)))
}
