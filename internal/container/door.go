package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// A door's own limits. Its two sides are a machine's loopback and one role, neither far away.
const (
	// doorCallers bounds connections at a time: far above what a role serves at once, far below the container's memory.
	doorCallers = 1024
	// doorPatience bounds how long a role may take to answer a call.
	doorPatience = 5 * time.Second
	// doorVariable names the variable that says what is forwarded, for the door itself and for its health check.
	doorVariable = "RIFFLE_DOOR"
)

// Forward is one address that a door listens at, and the one that it calls for each connection. Names are looked up at
// each call.
type Forward struct {
	Listen, To string // host:port
}

// ParseForwards reads LISTEN=TO pairs that are separated by spaces.
func ParseForwards(text string) (all []Forward, err error) {
	for pair := range strings.FieldsSeq(text) {
		listen, to, _ := strings.Cut(pair, "=")
		for _, address := range []string{listen, to} {
			if _, _, wrong := net.SplitHostPort(address); wrong != nil {
				return nil, fmt.Errorf("%q must be host:port=host:port", pair)
			}
		}
		all = append(all, Forward{listen, to})
	}
	if len(all) == 0 {
		return nil, errors.New("nothing to forward")
	}
	return all, nil
}

// Door forwards connections until the context ends; those that are open end with it. It looks at nothing that passes.
// The error is the listener's that could not be opened.
func Door(ctx context.Context, forwards []Forward) error {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	places := make(chan struct{}, doorCallers)
	for _, f := range forwards {
		var lc net.ListenConfig
		listener, err := lc.Listen(ctx, "tcp", f.Listen)
		if err != nil {
			return err
		}
		context.AfterFunc(ctx, func() { _ = listener.Close() })
		all.Go(func() {
			for ctx.Err() == nil {
				select {
				case places <- struct{}{}:
				case <-ctx.Done():
					return
				}
				near, err := listener.Accept()
				if err != nil {
					<-places
					time.Sleep(10 * time.Millisecond) // too many open files: some connection will end
					continue
				}
				all.Go(func() {
					defer func() { <-places }()
					pass(ctx, near, f.To)
				})
			}
		})
	}
	<-ctx.Done()
	return nil
}

// pass calls an address and carries bytes both ways until both sides have said all.
func pass(ctx context.Context, near net.Conn, to string) {
	defer func() { _ = near.Close() }()
	dialer := net.Dialer{Timeout: doorPatience}
	far, err := dialer.DialContext(ctx, "tcp", to)
	if err != nil {
		return // the caller sees a connection that ends, as it would of a role that is not there
	}
	defer func() { _ = far.Close() }()
	defer context.AfterFunc(ctx, func() { _, _ = near.Close(), far.Close() })()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		both.Go(func() {
			_, err := io.Copy(way[1], way[0])
			if half, ok := way[1].(*net.TCPConn); ok && err == nil {
				_ = half.CloseWrite()
				return
			}
			_, _ = near.Close(), far.Close() // one side broke: the other must not wait for it
		})
	}
	both.Wait()
}

// DoorCommand is Door as a command, with the health check of its image.
func DoorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "door",
		Short: "forward published ports to a role",
		Long: `Forwards connections that reach a machine's published ports to one role.

A role's own networks have no address of the machine, so that no role reaches what listens there. The door is on the
machine's network and on the role's. It holds no key and stores nothing.

` + doorVariable + ` says what is forwarded: pairs LISTEN=TO of addresses host:port, separated by spaces.`,
		Args: cobra.NoArgs, SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			forwards, err := ParseForwards(os.Getenv(doorVariable))
			if err != nil {
				return fmt.Errorf("%s: %w", doorVariable, err)
			}
			return Door(cmd.Context(), forwards)
		},
	}
	cmd.AddCommand(&cobra.Command{
		Use: "healthcheck", Short: "check whether the door in this container listens", Args: cobra.NoArgs, SilenceErrors: true, SilenceUsage: true,
		RunE: func(*cobra.Command, []string) error {
			forwards, err := ParseForwards(os.Getenv(doorVariable))
			return errors.Join(err, listening(forwards))
		},
	})
	return cmd
}

// listening tells whether something listens at every address. It takes no connection, which the role would only see
// break off.
func listening(forwards []Forward) (err error) {
	for _, f := range forwards {
		l, refused := net.Listen("tcp", f.Listen)
		switch {
		case refused == nil:
			err = errors.Join(err, fmt.Errorf("%w: nothing listens at %s", ErrNotReady, f.Listen), l.Close())
		case !errors.Is(refused, syscall.EADDRINUSE):
			err = errors.Join(err, refused)
		}
	}
	return err
}
