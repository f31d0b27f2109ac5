// Command healthcheck is the health check of the broker's image, which has no shell: see healthcheck --help.
package main

import (
	"fmt"
	"os"

	"github.com/riffle-dp/riffle/internal/container"
)

// The broker's image has its monitoring on its own loopback, and its streams in this folder.
const (
	natsHealth = "http://127.0.0.1:8222/healthz"
	natsData   = "/data"
)

func main() {
	if err := container.BrokerHealthCommand(natsHealth, natsData).Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "healthcheck:", err)
		os.Exit(1)
	}
}
