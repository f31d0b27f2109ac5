package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fakeKubectl notes what it is asked to create, and which files it is given.
const fakeKubectl = `#!/usr/bin/env bash
set -euo pipefail
for a in "$@"; do
    if [ "$a" = apply ]; then cat >/dev/null; exit 0; fi
done
line="$*"
for a in "$@"; do
    case $a in --from-file=*)
        path=${a#--from-file=}
        if [ -d "$path" ]; then for f in "$path"/*; do line+=" has:$(basename "$f")"; done
        else [ -f "$path" ] || { echo "no such file: $path" >&2; exit 1; }; line+=" has:$(basename "$path")"; fi ;;
    esac
done
echo "$line" >>"$KUBECTL_LOG"
`

// TestKeys runs the script that hands out keys, with the real riffle command, and holds what it creates against what the manifests ask
// for: the same names, in the same namespaces, and in each only what belongs there.
func TestKeys(t *testing.T) {
	dir := t.TempDir()
	riffle := filepath.Join(dir, "riffle")
	build := exec.Command("go", "build", "-o", riffle, "./cmd/riffle")
	build.Dir = "../../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte(fakeKubectl), 0o755); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "log")
	keys := exec.Command("../keys", filepath.Join(dir, "keys"))
	keys.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "RIFFLE="+riffle, "KUBECTL_LOG="+log)
	if out, err := keys.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	made := map[string][]string{} // files by namespace/kind/name
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 6 || f[0] != "-n" {
			continue // a namespace
		}
		name, kind := f[4], f[3]
		if kind == "secret" {
			name = f[5]
		}
		var files []string
		for _, w := range f {
			if file, ok := strings.CutPrefix(w, "has:"); ok {
				files = append(files, file)
			}
		}
		slices.Sort(files)
		made[f[1]+"/"+kind+"/"+name] = files
	}
	server := []string{"hpke-0001.key", "identity.key", "nats.seed"}
	want := map[string][]string{
		"riffle-broker/secret/nats-tls":              {"ca.pem", "server.key", "server.pem"},
		"riffle-broker/secret/admin-keys":            {"nats.seed"},
		"riffle-broker/configmap/nats-config":        {"nats-0.conf", "nats-1.conf", "nats-2.conf"},
		"riffle-mixing/secret/shuffler-keys":         server,
		"riffle-analysis/secret/analyzer-keys":       server,
		"riffle-devices/secret/randomizer-main-keys": {"credential", "host.key", "nats.seed"},
	}
	for _, namespace := range []string{"riffle-broker", "riffle-mixing", "riffle-analysis", "riffle-devices"} {
		want[namespace+"/configmap/riffle-public"] = []string{"bundle.json", "ca.pem"}
	}
	for name, files := range want {
		if !slices.Equal(made[name], files) {
			t.Errorf("%s holds %v, not %v", name, made[name], files)
		}
	}
	for name := range made {
		if _, ok := want[name]; !ok {
			t.Errorf("%s is made, and nobody asks for it", name)
		}
	}
	m := buildNames(t)
	for name := range m {
		if _, ok := want[name]; !ok {
			t.Errorf("the manifests ask for %s, which nobody makes", name)
		}
	}
}

// buildNames lists the secrets and config maps that the manifests name and do not make themselves.
func buildNames(t *testing.T) map[string]bool {
	m := build(t)
	names := map[string]bool{}
	for _, w := range m.workloads {
		for _, v := range w.pod.Spec.Volumes {
			if v.Secret != nil {
				names[w.namespace+"/secret/"+v.Secret.SecretName] = true
			}
			if v.ConfigMap != nil {
				if _, made := m.configs[w.namespace+"/"+v.ConfigMap.Name]; !made {
					names[w.namespace+"/configmap/"+v.ConfigMap.Name] = true
				}
			}
		}
	}
	return names
}
