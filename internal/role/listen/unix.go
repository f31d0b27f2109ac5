package listen

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
)

// longest is how many bytes of a path every system can connect to, with what the first name of a socket has besides.
const longest = 90

// Unix listens on a socket in the file system. Only its owner may connect (mode 0600), and with a group, which is a
// name or a number, also its members (0660): the socket never has other rights than these, not for a moment. A socket
// that a process left behind is replaced; one that is served, and any other file, is not. Close removes the socket.
func Unix(path, group string) (net.Listener, error) {
	if len(path) > longest {
		return nil, fmt.Errorf("%s: the path of a socket has at most %d bytes", path, longest)
	}
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("%s is there and is no socket: it is not replaced", path)
	default:
		if c, err := net.Dial("unix", path); err == nil {
			return nil, errors.Join(fmt.Errorf("%s is served by another process", path), c.Close())
		}
	}
	// Made where nobody else can reach it, and moved when its rights are set.
	folder, err := os.MkdirTemp(filepath.Dir(path), ".s")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }() // it is empty by then, unless something failed
	made := filepath.Join(folder, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	s := &socket{l, path, nil}
	if err = restrict(made, group); err == nil {
		if s.info, err = os.Lstat(made); err == nil {
			err = os.Rename(made, path)
		}
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return s, nil
}

// restrict sets the rights of a socket.
func restrict(path, group string) error {
	if group == "" {
		return os.Chmod(path, 0o600)
	}
	id, err := strconv.Atoi(group)
	if err != nil {
		g, err := user.LookupGroup(group)
		if err != nil {
			return err
		}
		if id, err = strconv.Atoi(g.Gid); err != nil {
			return err
		}
	}
	return errors.Join(os.Chown(path, -1, id), os.Chmod(path, 0o660))
}

// socket is a listener that removes its file, unless another one is in its place by then.
type socket struct {
	*net.UnixListener
	path string
	info fs.FileInfo
}

// Addr is where callers find it.
func (s *socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

func (s *socket) Close() error {
	err := s.UnixListener.Close()
	if now, gone := os.Lstat(s.path); err == nil && gone == nil && os.SameFile(now, s.info) {
		err = os.Remove(s.path)
	}
	return err
}
