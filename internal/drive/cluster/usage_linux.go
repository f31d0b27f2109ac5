package cluster

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// ticks is how many units of /proc's processor time make a second (USER_HZ), the same on every Linux of today.
const ticks = 100

// running is what a process has used that runs, as /proc says. It is false for one that has ended.
func running(pid int) (u Usage, ok bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Usage{}, false
	}
	// The program's name, in brackets, may hold anything. Behind it are the state and 10 numbers, then user and system
	// time.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return Usage{}, false
	}
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return Usage{}, false
		}
		u.CPU += time.Duration(n) * time.Second / ticks
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Usage{}, false
	}
	for line := range strings.Lines(string(status)) {
		value, isPeak := strings.CutPrefix(line, "VmHWM:")
		kibibytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if isPeak && err == nil {
			u.Peak = kibibytes << 10
		}
	}
	return u, u.Peak > 0 // one that is being buried has no memory left
}

// ForgetPeak has Own count the largest resident set of this process anew. Where the kernel does not allow it, it stays
// the largest since the start.
func ForgetPeak() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }
