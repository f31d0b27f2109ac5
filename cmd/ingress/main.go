// Command ingress runs the ingress: see ingress --help.
package main

import (
	"os"

	"github.com/riffle-dp/riffle/internal/container"
	"github.com/riffle-dp/riffle/internal/ingress"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/version"
)

func main() {
	cmd := container.Equip(role.Command(ingress.Role()), "http://127.0.0.1:9406/readyz")
	os.Exit(role.Main(version.Flag(cmd)))
}
