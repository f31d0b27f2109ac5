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

// A door's own limits. It connects a machine's loopback with one role, which is on the same machine.
const (
	// doorCallers is the largest number of open connections: far more than a role serves at the same time, and far
	// fewer than fit into the container's memory.
	doorCallers = 1024
	// doorIdle is how long nothing may pass through a connection in either direction: longer than a role keeps an idle
	// one open, so that only a caller who keeps places from others meets it.
	doorIdle = 3 * time.Minute
	// doorPatience is the longest time in which a role must accept a connection.
	doorPatience = 5 * time.Second
	// doorVariable is the environment variable with the addresses to forward; the door and its health check read it.
	doorVariable = "RIFFLE_DOOR"
)

// Forward is one address at which a door listens, and the address to which it forwards each connection. Names are
// looked up for each connection.
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
		return nil, errors.New("there is nothing to forward")
	}
	return all, nil
}

// Door forwards connections until the context ends, and then closes those that are open. It does not read what it
// forwards. The error is that of a listener that could not be opened.
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
					time.Sleep(10 * time.Millisecond) // too many open files: wait until a connection ends
					continue
				}
				all.Go(func() {
					defer func() { <-places }()
					pass(ctx, near, f.To, doorIdle)
				})
			}
		})
	}
	<-ctx.Done()
	return nil
}

// pass connects a connection with an address: see join.
func pass(ctx context.Context, near net.Conn, to string, idle time.Duration) {
	defer func() { _ = near.Close() }()
	dialer := net.Dialer{Timeout: doorPatience}
	far, err := dialer.DialContext(ctx, "tcp", to)
	if err != nil {
		return // the caller sees a connection that ends, as if the role were not running
	}
	defer func() { _ = far.Close() }()
	defer context.AfterFunc(ctx, func() { _, _ = near.Close(), far.Close() })()
	join(near, far, idle)
}

// join copies bytes between two connections, in both directions, until both sides have closed theirs, or nothing passes
// for so long.
func join(near, far net.Conn, idle time.Duration) {
	silence := time.AfterFunc(idle, func() { _, _ = near.Close(), far.Close() })
	defer silence.Stop()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		both.Go(func() {
			_, err := io.Copy(way[1], &heard{way[0], silence, idle})
			if half, ok := way[1].(*net.TCPConn); ok && err == nil {
				_ = half.CloseWrite()
				return
			}
			_, _ = near.Close(), far.Close() // one side failed: the other must not wait for it
		})
	}
	both.Wait()
}

// heard is a connection that puts off its end whenever something comes from it.
type heard struct {
	net.Conn
	silence *time.Timer
	idle    time.Duration
}

// Read implements io.Reader.
func (h *heard) Read(b []byte) (n int, err error) {
	if n, err = h.Conn.Read(b); n > 0 {
		h.silence.Reset(h.idle)
	}
	return n, err
}

// DoorCommand is Door as a command, with the health check of its image.
func DoorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "door",
		Short: "forward published ports to a role",
		Long: `Forwards connections that reach a machine's published ports to one role.

A role's own networks have no address of the machine, so no role reaches the machine's listeners. The door is on a
network of the machine and on one of the role; it holds no key and stores nothing.

The variable ` + doorVariable + ` holds the addresses: LISTEN=TO pairs of host:port, separated by spaces.`,
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
		Use: "healthcheck", Short: "check whether the door in this container listens", Args: cobra.NoArgs,
		SilenceErrors: true, SilenceUsage: true,
		RunE: func(*cobra.Command, []string) error {
			forwards, err := ParseForwards(os.Getenv(doorVariable))
			return errors.Join(err, listening(forwards))
		},
	})
	return cmd
}

// listening checks that a process listens at every address. It opens no connection, because the door would forward it
// to the role.
func listening(forwards []Forward) (err error) {
	for _, f := range forwards {
		l, refused := net.Listen("tcp", f.Listen)
		switch {
		case refused == nil:
			err = errors.Join(err, fmt.Errorf("%w: no process listens at %s", ErrNotReady, f.Listen), l.Close())
		case !errors.Is(refused, syscall.EADDRINUSE):
			err = errors.Join(err, refused)
		}
	}
	return err
}
