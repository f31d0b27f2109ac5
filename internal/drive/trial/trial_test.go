package trial

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/riffle-dp/riffle/pkg/client"
)

const schema = `{"version": 1, "context": [{"name": "evening", "kind": "flag"}],
 "arms": [{"name": "id", "kind": "category", "values": ["none", "reminder"], "baseline": true}],
 "terms": [["bias"], ["id"], ["id", "evening"]]}`

// riffle builds the program, and writes the schema.
func riffle(t *testing.T) (program, features string) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs real processes")
	}
	dir := t.TempDir()
	program, features = filepath.Join(dir, "riffle"), filepath.Join(dir, "schema.json")
	if out, err := exec.Command("go", "build", "-o", program, "../../../cmd/riffle").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.WriteFile(features, []byte(schema), 0o600); err != nil {
		t.Fatal(err)
	}
	return program, features
}

// A program that starts a trial is told where everything is, decides through its API, and closes its input to end all
// of it: then nothing answers, and nothing is left but what it asked to keep.
func TestATrialEndsWithItsInput(t *testing.T) {
	program, features := riffle(t)
	for _, dir := range []string{"", filepath.Join(t.TempDir(), "kept")} {
		cmd := exec.CommandContext(t.Context(), program, "trial", "--features", features, "--people", "100", "--tied",
			"--json", "--dir", dir)
		cmd.Stderr = t.Output()
		input, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		output, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var said Running
		if err := json.NewDecoder(output).Decode(&said); err != nil {
			t.Fatal(err)
		}
		c := client.New(client.Options{})
		if s, err := c.Status(t.Context(), client.At(said.API)); err != nil || s.Epoch != 1 {
			t.Errorf("a trial says where it is before its first epoch: %+v %v", s, err)
		}
		decided, _, err := c.DecideAmong(t.Context(), client.At(said.API), "person", client.Request{
			Context: map[string]any{"evening": true}, Arms: []client.Arm{{ID: "none"}, {ID: "reminder"}},
		})
		if err != nil || !decided.Sampled || said.Dimension != 3 {
			t.Errorf("%+v %v, dimension %d", decided, err, said.Dimension)
		}
		for _, page := range []string{said.Analyzer, said.Shuffler} {
			r, err := http.Get(page + "/healthz") //nolint:noctx // the test ends with the process
			if err != nil || r.StatusCode != http.StatusOK {
				t.Errorf("%s: %v %v", page, r, err)
			}
			if err == nil {
				_ = r.Body.Close()
			}
		}
		c.Close()
		if err := input.Close(); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, output)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		if r, err := http.Get(said.API); err == nil { //nolint:noctx // as above
			_ = r.Body.Close()
			t.Error("the API answers after the end")
		}
		if _, err := os.Stat(filepath.Join(said.Keys, "bundle.json")); (err == nil) != (dir != "") {
			t.Errorf("with --dir %q: %v", dir, err)
		}
	}
}

// Nothing is started with options that cannot be.
func TestATrialIsCheckedFirst(t *testing.T) {
	folder := t.TempDir()
	features := filepath.Join(folder, "schema.json")
	if err := os.WriteFile(features, []byte(schema), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(folder, "broken.json")
	if err := os.WriteFile(broken, []byte(schema[:100]), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Options){
		"no schema": func(o *Options) { o.Features = "" }, "broken schema": func(o *Options) { o.Features = broken },
		"nobody": func(o *Options) { o.People = 0 }, "no window": func(o *Options) { o.Window = 0 },
		"a folder in use": func(o *Options) { o.Dir = folder },
	} {
		o := Options{Executable: "/nowhere/riffle", Features: features, People: 100, Window: 1e9,
			Started: func(Running) error { t.Error("started"); return nil }}
		if _, err := o.Check(); err != nil {
			t.Fatal(err)
		}
		change(&o)
		if err := Run(context.Background(), o); err == nil {
			t.Errorf("%s: no error", name)
		} else {
			t.Log(err)
		}
	}
}
