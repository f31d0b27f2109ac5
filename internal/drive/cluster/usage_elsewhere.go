//go:build !linux

package cluster

// running is what a process has used that runs, which is not known without Linux's /proc.
func running(int) (Usage, bool) { return Usage{}, false }

// ForgetPeak has Own count the largest resident set of this process anew, which only Linux can.
func ForgetPeak() {}
