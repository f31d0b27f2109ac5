package composetest

import (
	"os"
	"syscall"
	"testing"
)

// chown gives a file to the owner of another: private keys must belong to the user inside the containers.
func chown(t *testing.T, path string, like os.FileInfo) {
	t.Helper()
	if of, ok := like.Sys().(*syscall.Stat_t); ok {
		if err := os.Chown(path, int(of.Uid), int(of.Gid)); err != nil {
			t.Fatal(err)
		}
	}
}
