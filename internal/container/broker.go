package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// ErrStuck says that the broker keeps a write error although its disk has room again, and must be restarted.
var ErrStuck = errors.New("the broker keeps a write error although its disk has room again; it must be restarted")

// ErrDiskFull says that the broker's disk has no room for what it writes.
var ErrDiskFull = errors.New("the broker's disk is full")

// brokerRoom is the number of bytes that a broker's disk must have free: twice the largest file that nats-server
// writes, a block of 8 MiB, which it copies when it erases a message.
const brokerRoom = 16 << 20

// sticky are the words in nats-server's health answer after a write that failed for lack of space. From then on the
// stream refuses every write or, where brokers replicate, JetStream is off, until the server is restarted. Other write
// errors, such as those of a broken disk, are not among them, because a restart would only repeat them.
var sticky = []string{"no space left on device", "disk quota exceeded", "JetStream not enabled"}

// Broker is a nats-server in this container as its health check sees it.
type Broker struct {
	Health string                       // URL of its health answer
	Data   string                       // folder of its streams
	Free   func(string) (uint64, error) // number of free bytes on the disk of a folder
}

// Check asks the broker once. The error is ErrNotReady with the broker's own words, ErrStuck, ErrDiskFull, or says
// that it did not answer.
func (b Broker) Check(ctx context.Context) error {
	err := Ready(ctx, b.Health)
	free, unknown := b.Free(b.Data)
	if unknown != nil {
		return errors.Join(err, unknown)
	}
	if free < brokerRoom {
		return errors.Join(fmt.Errorf("%w: %s has %d bytes left and needs %d; free some space, and the broker will be "+
			"restarted", ErrDiskFull, b.Data, free, brokerRoom), err)
	}
	if errors.Is(err, ErrNotReady) {
		for _, words := range sticky {
			if strings.Contains(err.Error(), words) {
				return fmt.Errorf("%w: %w", ErrStuck, err)
			}
		}
	}
	return err
}

// BrokerHealthCommand is the health check of the broker's image.
func BrokerHealthCommand(health, data string) *cobra.Command {
	var restart, alive bool
	var within time.Duration
	cmd := &cobra.Command{
		Use:   "healthcheck",
		Short: "ask the broker in this container whether it is ready",
		Long: `
Asks the broker once, and exits with 0 if it is ready and with 1 if not. When a write fails on a full disk, nats-server
keeps the error and refuses all further writes until it is restarted. With --restart this command ends the server once
the disk has room again, so that the container runtime restarts it. With --alive, for a liveness probe, it exits with 1
only if the server must be restarted.`[1:],
		Args: cobra.NoArgs, SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), within)
			defer cancel()
			err := Broker{health, data, free}.Check(ctx)
			switch stuck := errors.Is(err, ErrStuck); {
			case stuck && restart:
				return errors.Join(err, endBroker())
			case !stuck && alive:
				return nil
			}
			return err
		},
	}
	cmd.Flags().StringVar(&health, "url", health, "address to ask")
	cmd.Flags().StringVar(&data, "data", data, "folder of the broker's streams")
	cmd.Flags().BoolVar(&restart, "restart", false,
		"end the broker, process 1 of this container, if it must be restarted")
	cmd.Flags().BoolVar(&alive, "alive", false, "fail only if the broker must be restarted")
	cmd.Flags().DurationVar(&within, "within", 3*time.Second, "longest wait for the answer")
	cmd.MarkFlagsMutuallyExclusive("restart", "alive")
	return cmd
}

// endBroker asks process 1 of the container, which is the broker, to end. nats-server writes what it holds and closes
// its files.
func endBroker() error {
	broker, err := os.FindProcess(1)
	if err != nil {
		return err
	}
	return broker.Signal(syscall.SIGTERM)
}
