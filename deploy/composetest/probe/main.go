// Command probe tries to reach addresses from where it runs, which is inside a container on one side of a deployment.
// It is part of the tests and of no image that is deployed.
//
//	probe host:port...
//
// It calls each address as its routes lead, and once more through every network interface whatever the routes say, as
// any process may. It prints what it reached, one address per line.
package main

import (
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// patience is how long an address may take to answer. A packet that is dropped on the way looks like this.
const patience = 3 * time.Second

func main() {
	interfaces, err := net.Interfaces()
	if err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
	ways := []net.Dialer{{Timeout: patience}}
	for _, i := range interfaces {
		ways = append(ways, net.Dialer{Timeout: patience, Control: func(_, _ string, c syscall.RawConn) error {
			var failed error
			err := c.Control(func(fd uintptr) { failed = bind(int(fd), i.Name) })
			if err == nil {
				err = failed
			}
			return err
		}})
	}
	var wg sync.WaitGroup
	reached := make([]atomic.Bool, len(os.Args))
	for i, address := range os.Args[1:] {
		for _, way := range ways {
			wg.Go(func() {
				if c, err := way.Dial("tcp", address); err == nil {
					reached[i].Store(true)
					_ = c.Close()
				}
			})
		}
	}
	wg.Wait()
	for i, address := range os.Args[1:] {
		if reached[i].Load() {
			fmt.Println(address)
		}
	}
}
