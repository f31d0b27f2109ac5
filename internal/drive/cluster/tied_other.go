//go:build !linux

package cluster

import "os/exec"

// startTied starts a command. Only on Linux can the kernel be asked to end it together with this process; here it ends
// by Stop.
func startTied(cmd *exec.Cmd, _ <-chan struct{}) error { return cmd.Start() }
