package check

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
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
        case $path in *.conf) cp "$path" "$(dirname "$0")" ;; esac
        if [ -d "$path" ]; then for f in "$path"/*; do line+=" has:$(basename "$f")"; done
        else [ -f "$path" ] || { echo "no such file: $path" >&2; exit 1; }; line+=" has:$(basename "$path")"; fi ;;
    esac
done
echo "$line" >>"$KUBECTL_LOG"
`

// TestKeys runs the script that hands out keys, with the real riffle command, and holds what it creates against what
// the manifests ask for: the same names, in the same namespaces, and in each only what belongs there.
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
	made, err := handOut(t, dir, filepath.Join(dir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	server := []string{"hpke-0001.key", "identity.key", "nats.seed"}
	worker := []string{"hpke-0001.key", "nats.seed"} // never the identity
	want := map[string][]string{
		"riffle-broker/secret/nats-tls":               {"ca.pem", "server.key", "server.pem"},
		"riffle-broker/secret/admin-keys":             {"nats.seed"},
		"riffle-broker/configmap/nats-config":         {"nats-0.conf", "nats-1.conf", "nats-2.conf"},
		"riffle-mixing/secret/shuffler-keys":          append(slices.Clone(server), "ticket.key"),
		"riffle-mixing/secret/ingress-keys":           {"nats.seed", "ticket.key"},
		"riffle-mixing/secret/shuffler-worker-keys":   worker,
		"riffle-analysis/secret/analyzer-worker-keys": worker,
		"riffle-analysis/secret/analyzer-keys":        server,
		"riffle-devices/secret/randomizer-main-keys":  {"credential", "host.key", "nats.seed"},
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
			t.Errorf("%s is made, but no manifest asks for it", name)
		}
	}
	testRoom(t, dir)
	// A party that has only its own part of the keys hands out what its namespace had above, and nothing else.
	for side, part := range map[string][]string{"mixing": {"shuffler", "ingress"}, "analysis": {"analyzer"},
		"devices": {"randomizer-main"}} {
		folder := filepath.Join(dir, "part-"+side)
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range part {
			if err := os.Rename(filepath.Join(dir, "keys", name), filepath.Join(folder, name)); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"bundle.json", "ca.pem"} {
			if err := os.Link(filepath.Join(dir, "keys", name), filepath.Join(folder, name)); err != nil {
				t.Fatal(err)
			}
		}
		got, err := handOut(t, dir, folder, side)
		if err != nil {
			t.Fatal(err)
		}
		own := maps.Clone(made)
		maps.DeleteFunc(own, func(name string, _ []string) bool { return !strings.HasPrefix(name, "riffle-"+side+"/") })
		if !reflect.DeepEqual(got, own) {
			t.Errorf("%s hands out %v, not %v", side, got, own)
		}
	}
	for _, wrong := range []string{"mixing", "ward"} { // keys that nobody made, and a side that is none
		if got, err := handOut(t, dir, filepath.Join(dir, "none"), wrong); err == nil {
			t.Errorf("%s: handed out %v", wrong, got)
		}
	}
	m := buildNames(t)
	for name := range m {
		if _, ok := want[name]; !ok {
			t.Errorf("the manifests ask for %s, which deploy/kubernetes/keys does not make", name)
		}
	}
}

// handOut runs the script on a folder of keys, with the riffle command and the false kubectl of dir, and returns the files
// of what it created, by namespace/kind/name.
func handOut(t *testing.T, dir, folder string, sides ...string) (map[string][]string, error) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	keys := exec.Command("../keys", append([]string{folder}, sides...)...)
	keys.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "RIFFLE="+filepath.Join(dir, "riffle"),
		"KUBECTL_LOG="+log)
	if out, err := keys.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	made := map[string][]string{}
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
	return made, nil
}

// testRoom holds the streams' byte limits against the brokers' own, and those against the volumes: reports and mixed
// messages are bounded, the broker has room for both, and refuses a write before its disk is full.
func testRoom(t *testing.T, dir string) {
	m := build(t)
	reserved := int64(0)
	args := m.workloads["riffle-broker/provision"].pod.Spec.Containers[0].Args
	for _, flag := range []string{"--max-report-bytes", "--max-mixed-bytes", "--max-mixing-bytes"} {
		i := slices.Index(args, flag)
		if i < 0 || i+1 == len(args) {
			t.Fatalf("provisioning does not bound %s: %v", flag, args)
		}
		n, err := strconv.ParseInt(args[i+1], 10, 64)
		if err != nil || n <= 0 {
			t.Errorf("%s %s: %v", flag, args[i+1], err)
		}
		reserved += n
	}
	volume := m.workloads["riffle-broker/nats"].claims[0].Spec.Resources.Requests.Storage().Value()
	for _, name := range []string{"nats-0.conf", "nats-1.conf", "nats-2.conf"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), "max_file_store: ")
		line, _, _ := strings.Cut(rest, "\n")
		store, err := strconv.ParseInt(line, 10, 64)
		if err != nil || store <= reserved || store > volume*9/10 {
			t.Errorf("%s: %d bytes for all streams, of which %d are set aside, on a volume of %d: %v", name, store,
				reserved, volume, err)
		}
	}
}

// TestBrokerIsRestartedWhereOnlyThatHelps: nats-server keeps the error of a full disk until it is restarted.
func TestBrokerIsRestartedWhereOnlyThatHelps(t *testing.T) {
	c := build(t).workloads["riffle-broker/nats"].pod.Spec.Containers[0]
	if p := c.LivenessProbe; p == nil || p.Exec == nil ||
		!slices.Equal(p.Exec.Command, []string{"/healthcheck", "--alive"}) {
		t.Errorf("liveness: %+v", p)
	}
	if p := c.ReadinessProbe; p == nil || p.Exec == nil || !slices.Equal(p.Exec.Command, []string{"/healthcheck"}) {
		t.Errorf("readiness: %+v", p)
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
