// Command analyzer runs the analyzer: see analyzer --help.
package main

import (
	"os"

	"github.com/riffle-dp/riffle/internal/analyzer"
	"github.com/riffle-dp/riffle/internal/container"
	"github.com/riffle-dp/riffle/internal/service"
)

func main() {
	os.Exit(service.Main(container.Equip(service.Command(analyzer.Role()), "http://127.0.0.1:9402/readyz")))
}
