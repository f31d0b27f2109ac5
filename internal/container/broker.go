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

// ErrStuck says that the broker holds on to a write error that its disk no longer gives: only a restart helps.
var ErrStuck = errors.New("the broker keeps a write error although its disk has room again; it must be restarted")

// ErrDiskFull says that the broker's disk has no room for what it writes.
var ErrDiskFull = errors.New("the broker's disk is full")

// brokerRoom is how many bytes a broker's disk must have free: twice the largest file that nats-server
// writes at a time, a block of 8 MiB, which it copies when it erases a message.
const brokerRoom = 16 << 20

// sticky are words of nats-server's health answer that say that a write failed for want of room. The stream refuses
// every write from then on, or the whole of JetStream is off (where brokers replicate), until the server is
// restarted. Other write errors, such as a broken disk's, are not among them: a restart would only repeat them.
var sticky = []string{"no space left on device", "disk quota exceeded", "JetStream not enabled"}

// Broker is a nats-server in this container as its health check sees it.
type Broker struct {
	Health string                       // URL of its health answer
	Data   string                       // folder of its streams
	Free   func(string) (uint64, error) // bytes that are free where a folder is
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
		return errors.Join(fmt.Errorf("%w: %s has %d bytes left and needs %d: free some, it is restarted then",
			ErrDiskFull, b.Data, free, brokerRoom), err)
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
Asks once, and exits with 0 if the answer is yes and with 1 if not. When a write fails on a full disk, nats-server keeps
the error and refuses all further writes until it is restarted. With --restart this command ends the server once the
disk has room again, so that the container runtime starts it anew. With --alive it exits with 1 in that case only, for
a liveness probe.`[1:],
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
		"end the broker, process 1 of this container, where only a restart helps")
	cmd.Flags().BoolVar(&alive, "alive", false, "fail only where a restart helps")
	cmd.Flags().DurationVar(&within, "within", 3*time.Second, "how long the answer may take")
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
