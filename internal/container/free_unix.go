//go:build linux || darwin

package container

import "syscall"

// free is the number of bytes that a process without privileges may still write to the disk of a folder.
func free(folder string) (uint64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil {
		return 0, err
	}
	return s.Bavail * uint64(s.Bsize), nil
}
