// Command probe tries to reach addresses from where it runs, which is inside a container on one side of a deployment. It is part of
// the tests and of no image that is deployed.
//
//	probe host:port...
//
// It prints what it reached, one address per line.
package main

import (
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// patience is how long an address may take to answer. A packet that is dropped on the way looks like this.
const patience = 3 * time.Second

func main() {
	var wg sync.WaitGroup
	reached := make([]bool, len(os.Args))
	for i, address := range os.Args[1:] {
		wg.Go(func() {
			c, err := net.DialTimeout("tcp", address, patience)
			if reached[i] = err == nil; reached[i] {
				_ = c.Close()
			}
		})
	}
	wg.Wait()
	for i, address := range os.Args[1:] {
		if reached[i] {
			fmt.Println(address)
		}
	}
}
