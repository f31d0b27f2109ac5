// Command healthcheck asks an address whether what runs there is ready, for images that have no shell: see healthcheck --help.
package main

import (
	"fmt"
	"os"

	"github.com/riffle-dp/riffle/internal/container"
)

// natsHealth is where the broker's image has its monitoring, on its own loopback.
const natsHealth = "http://127.0.0.1:8222/healthz"

func main() {
	if err := container.HealthCommand(natsHealth).Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "healthcheck:", err)
		os.Exit(1)
	}
}
