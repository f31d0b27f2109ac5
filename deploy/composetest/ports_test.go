package composetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
)

// lowPort and highPort bound the ports that a deployment publishes: below those that Linux gives to connections by
// itself (ip_local_port_range), of which the tests that run meanwhile use many.
const lowPort, highPort = 20000, 32000

// freePorts are ports of the loopback that nothing listens on, and that no other deployment of this run was given.
func freePorts(t *testing.T, n int) (ports []string) {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	for len(ports) < n {
		port := strconv.Itoa(lowPort + rand.IntN(highPort-lowPort))
		if slices.Contains(shared.ports, port) {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		ports, shared.ports = append(ports, port), append(shared.ports, port)
	}
	return ports
}

// subnet is the first three numbers of addresses that no other deployment of this run has. Those that follow from a
// project's name have a second number below 192.
func subnet() string {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.subnets++
	return fmt.Sprintf("10.%d.%d", 192+shared.subnets%64, os.Getpid()%256)
}
