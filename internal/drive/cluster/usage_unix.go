//go:build unix

package cluster

import (
	"os"
	"runtime"
	"syscall"
	"time"
)

// peak is the most memory that an ended process had, in bytes: its largest resident set, as the kernel counted it.
func peak(s *os.ProcessState) int64 {
	u, ok := s.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return resident(u)
}

func own() Usage {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return Usage{}
	}
	used := Usage{CPU: time.Duration(u.Utime.Nano() + u.Stime.Nano()), Peak: resident(&u)}
	if now, ok := running(os.Getpid()); ok {
		used.Peak = now.Peak
	}
	return used
}

// resident is the largest resident set in bytes.
func resident(u *syscall.Rusage) int64 {
	if runtime.GOOS == "darwin" || runtime.GOOS == "ios" {
		return int64(u.Maxrss) // in bytes there, and in kibibytes everywhere else
	}
	return int64(u.Maxrss) * 1024
}
