// Package container holds the commands that replace a shell and its tools in the images, which have none: health checks
// of a role and of the broker, the installation of keys with the modes that the roles require, and the door, which
// forwards published ports to a role.
//
// It does not authenticate the callers of a door, and does not read what passes through one.
package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// maxFile bounds the bytes of a key file; a bundle, the largest, has a few hundred.
const maxFile = 1 << 20

// maxAnswer bounds what is read of an answer that says why something is not ready.
const maxAnswer = 1 << 10

// ErrNotReady says that what was asked answers, but is not ready.
var ErrNotReady = errors.New("not ready")

// Ready asks a readiness address, such as a role's /readyz, once. The error is nil if the answer is 200; for any other
// answer it is ErrNotReady with the answer's text.
func Ready(ctx context.Context, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%w: %s: %s", ErrNotReady, answer.Status, strings.TrimSpace(string(text)))
	}
	return err
}

// HealthCommand is the command that an image's HEALTHCHECK runs. url is the default of the role's readiness address.
func HealthCommand(url string) *cobra.Command {
	var within time.Duration
	cmd := &cobra.Command{
		Use:   "healthcheck",
		Short: "ask the role in this container whether it is ready",
		Long: "Asks the role once, and exits with 0 if it is ready and with 1 if not. It is the HEALTHCHECK of an " +
			"image without a shell.",
		Args: cobra.NoArgs, SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), within)
			defer cancel()
			return Ready(ctx, url)
		},
	}
	cmd.Flags().StringVar(&url, "url", url, "address to ask")
	cmd.Flags().DurationVar(&within, "within", 3*time.Second, "longest wait for the answer")
	return cmd
}

// Install copies the files of a folder, and of folders below it, to another folder with the modes that keys must
// have: 0600, and 0700 for folders. Kubernetes shows secrets as files that a group can read, which the roles refuse to
// use; an init container copies them into the memory of its pod. Symbolic links to files, which Kubernetes makes, are
// followed; hidden entries, which are Kubernetes' own bookkeeping, are left out. Existing files are replaced.
func Install(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		source, target := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		info, err := os.Stat(source)
		if err != nil {
			return err
		}
		switch {
		case info.IsDir():
			err = Install(source, target)
		case info.Mode().IsRegular():
			err = installFile(source, target)
		default:
			err = fmt.Errorf("%s is neither a file nor a folder", source)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func installFile(from, to string) error {
	in, err := os.Open(filepath.Clean(from))
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	content, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return err
	}
	if len(content) > maxFile {
		return fmt.Errorf("%s has more than %d bytes and cannot be a key file", from, maxFile)
	}
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(to, content, 0o600)
}

// InstallCommand is Install as a command.
func InstallCommand() *cobra.Command {
	var from, to string
	cmd := &cobra.Command{
		Use:   "install-keys",
		Short: "copy keys into files that only this user can read",
		Long: `
Copies a folder of keys; the copies have mode 0600. The command is meant for init containers in Kubernetes, where
secrets are files that a group can read, which the roles refuse.`[1:],
		Args: cobra.NoArgs, SilenceErrors: true, SilenceUsage: true,
		RunE: func(*cobra.Command, []string) error { return Install(from, to) },
	}
	cmd.Flags().StringVar(&from, "from", "/secrets", "folder to copy")
	cmd.Flags().StringVar(&to, "to", "/keys", "folder to copy to; it should be in memory")
	return cmd
}

// Equip adds HealthCommand and InstallCommand to a role's command. readiness is the role's readiness address inside its
// container.
func Equip(role *cobra.Command, readiness string) *cobra.Command {
	role.AddCommand(HealthCommand(readiness), InstallCommand())
	return role
}
