package main

import (
	"syscall"
	"unsafe"
)

// limit has every write of a process to a file fail, whatever room the disk has, or takes that back.
func limit(pid int, on bool) error {
	var l syscall.Rlimit
	if err := prlimit(pid, nil, &l); err != nil {
		return err
	}
	l.Cur = l.Max
	if on {
		l.Cur = 0
	}
	return prlimit(pid, &l, nil)
}

// prlimit is the system call of that name, about the size of files; set and get may be nil.
func prlimit(pid int, set, get *syscall.Rlimit) error {
	if _, _, errno := syscall.Syscall6(syscall.SYS_PRLIMIT64, uintptr(pid), syscall.RLIMIT_FSIZE,
		uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(get)), 0, 0); errno != 0 {
		return errno
	}
	return nil
}
