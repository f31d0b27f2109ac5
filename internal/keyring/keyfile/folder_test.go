package keyfile_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
)

// Git leaves out what is in a folder for keys or state, and the private files that it has or would take all the same
// are named; nothing is where there is no work tree. Without git, what is not in such a folder is named.
func TestGitLeavesOutFoldersOfKeys(t *testing.T) {
	tree := filepath.Join(t.TempDir(), "work")
	path := func(name string) string { return filepath.Join(tree, filepath.FromSlash(name)) }
	write := func(name string, mode os.FileMode) {
		if err := keyfile.Create(path(name), []byte("secret\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) string {
		out, err := exec.Command("git", append([]string{"-C", tree}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	listed := func(at string, want ...string) {
		t.Helper()
		for i := range want {
			want[i] = path(want[i])
		}
		if got, err := keyfile.ListInGit(path(at)); err != nil || !slices.Equal(got, want) {
			t.Errorf("of %s git lists %v, %v; want %v", at, got, err, want)
		}
	}
	for _, folder := range []string{"keys/role", "keys/role/deeper", "keys/role"} { // again: it stays as it is
		if err := keyfile.Folder(path(folder)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(path("plain"), 0o700); err != nil {
		t.Fatal(err)
	}
	write("keys/role/identity.key", 0o600)
	write("keys/role/deeper/old.key", 0o600)
	write("keys/bundle.json", 0o644)
	write("plain/witness.key", 0o600)
	write("plain/witness.key.pub", 0o644)
	listed("keys")
	listed("plain") // no work tree
	git("init", "-q")
	if out := git("add", "-n", "-A"); strings.Contains(out, "role") || !strings.Contains(out, "bundle.json") {
		t.Errorf("git takes:\n%s", out)
	}
	listed("keys")
	listed("plain", "plain/witness.key")
	listed("plain/witness.key", "plain/witness.key")
	t.Run("without git", func(t *testing.T) {
		t.Setenv("PATH", "")
		listed("keys")
		listed("plain", "plain/witness.key")
	})
	git("add", "-f", "keys/role/identity.key")
	listed("keys", "keys/role/identity.key")
	if err := os.WriteFile(path(".gitignore"), []byte("*.key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	listed("plain")
	if info, err := os.Stat(path("keys/role")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
}
