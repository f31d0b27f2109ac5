package main

import "golang.org/x/sys/unix"

// limit has every write of a process to a file fail, whatever room the disk has, or takes that back.
func limit(pid int, on bool) error {
	var l unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &l); err != nil {
		return err
	}
	l.Cur = l.Max
	if on {
		l.Cur = 0
	}
	return unix.Prlimit(pid, unix.RLIMIT_FSIZE, &l, nil)
}
