package container_test

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/container"
	"github.com/riffle-dp/riffle/internal/keyring"
)

func TestReadyIsWhatTheRoleSays(t *testing.T) {
	ready := true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !ready {
			http.Error(w, "broker: not yet", http.StatusServiceUnavailable)
		}
	}))
	url := server.URL
	if err := container.Ready(t.Context(), url); err != nil {
		t.Error(err)
	}
	ready = false
	if err := container.Ready(t.Context(), url); !errors.Is(err, container.ErrNotReady) ||
		!strings.Contains(err.Error(), "broker: not yet") {
		t.Errorf("not ready: %v", err)
	}
	server.Close()
	if err := container.Ready(t.Context(), url); err == nil {
		t.Error("nothing answered, and that was taken for ready")
	}
}

// The commands are beside a role's own run without taking its place.
func TestCommandsStandBesideTheRole(t *testing.T) {
	ran := 0
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	command := func(args ...string) error {
		role := &cobra.Command{Use: "shuffler", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error { ran++; return nil }, SilenceErrors: true, SilenceUsage: true}
		role = container.Equip(role, server.URL)
		role.SetArgs(append([]string{}, args...)) // not nil, which means the arguments of this process
		return role.Execute()
	}
	if err := command(); err != nil || ran != 1 {
		t.Errorf("the role itself: ran %d times, %v", ran, err)
	}
	if err := command("healthcheck"); !errors.Is(err, container.ErrNotReady) || ran != 1 {
		t.Errorf("healthcheck: ran %d times, %v", ran, err)
	}
	if err := command("healthchek"); err == nil || ran != 1 {
		t.Errorf("a misspelt command: ran %d times, %v", ran, err)
	}
}

// A secret as Kubernetes mounts it: links into a hidden folder, files that a group can read.
func TestInstalledKeysAreUsable(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys")
	if err := keyring.Generate(keys, keyring.Options{Name: "demo",
		Hosts: []keyring.HostOptions{{Name: "one", Devices: 5}}}); err != nil {
		t.Fatal(err)
	}
	mounted := filepath.Join(t.TempDir(), "secrets")
	hidden := filepath.Join(mounted, "shuffler", "..data")
	if err := os.MkdirAll(hidden, 0o755); err != nil {
		t.Fatal(err)
	}
	copyOpen := func(from, to string) {
		t.Helper()
		content, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, content, 0o640)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	copyOpen(filepath.Join(keys, keyring.BundleFile), filepath.Join(mounted, keyring.BundleFile))
	for _, name := range []string{"identity.key", "hpke-0001.key", "nats.seed", "ticket.key"} {
		copyOpen(filepath.Join(keys, "shuffler", name), filepath.Join(hidden, name))
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(mounted, "shuffler", name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := keyring.LoadShuffler(mounted); err == nil {
		t.Fatal("keys that a group can read were used: this test proves nothing")
	}
	to := filepath.Join(t.TempDir(), "keys")
	for range 2 { // a restarted pod finds them there
		if err := container.Install(mounted, to); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := keyring.LoadShuffler(to); err != nil {
		t.Error(err)
	}
	err := filepath.WalkDir(to, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		if strings.HasPrefix(e.Name(), "..") {
			t.Errorf("%s was copied", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if err := container.Install(filepath.Join(mounted, "none"), to); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
}
