package main

import "syscall"

// bind makes a socket send and receive through one interface only, past the table of routes.
func bind(fd int, device string) error {
	return syscall.BindToDevice(fd, device)
}
