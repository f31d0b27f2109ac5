//go:build linux || darwin

package container

import "syscall"

// free is the bytes that a process without privileges may still write where a folder is.
func free(folder string) (uint64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil {
		return 0, err
	}
	return s.Bavail * uint64(s.Bsize), nil
}
