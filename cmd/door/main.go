// Command door forwards ports that a machine publishes to a role whose own networks have no address of that machine:
// see door --help.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/riffle-dp/riffle/internal/container"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := container.DoorCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "door:", err)
		os.Exit(1)
	}
}
