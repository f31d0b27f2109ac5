package cluster

import (
	"os/exec"
	"runtime"
	"syscall"
)

// startTied starts a command that the kernel kills when this process ends, however it ends. The kernel watches the
// thread that started the child, so that thread is kept until the child is done.
func startTied(cmd *exec.Cmd, done <-chan struct{}) error {
	// A group of its own keeps the terminal's Ctrl-C away from the child: the cluster stops it in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			<-done
		}
	}()
	return <-started
}
