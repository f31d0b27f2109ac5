package apiserver

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/kube"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Where helm keeps what it knows of the release.
const (
	releaseName      = "riffle"
	releaseNamespace = "default"
)

var sides = []string{"riffle-broker", "riffle-mixing", "riffle-analysis", "riffle-devices"}

// TestChartLives installs the chart, hands out keys, changes values, fails to change what cannot change, goes back, and
// uninstalls, and looks each time at what the API server then has.
func TestChartLives(t *testing.T) {
	k := start(t)
	install := action.NewInstall(k.helm(t))
	install.ReleaseName, install.Namespace, install.WaitStrategy = releaseName, releaseNamespace, kube.HookOnlyStrategy
	chart, err := loader.LoadDir("../../chart")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := install.Run(chart, nil); err != nil {
		t.Fatal(err)
	}
	first := k.state(t)
	t.Logf("%d objects", len(first))
	if len(first) != 31 {
		t.Errorf("%d objects, not 31: %v", len(first), slices.Sorted(maps.Keys(first)))
	}
	k.podsAreAdmitted(t)
	k.keysAreHandedOut(t)

	upgrade := func(values string) error {
		given, err := common.ReadValues([]byte(values))
		if err != nil {
			t.Fatal(err)
		}
		u := action.NewUpgrade(k.helm(t))
		u.Namespace, u.WaitStrategy = releaseNamespace, kube.HookOnlyStrategy
		_, err = u.Run(releaseName, chart, given)
		return err
	}
	const changes = `
image: {tag: v1.2.3}
workers: {shuffler: 2, analyzer: 0}
ingress: 0
`
	if err := upgrade(changes); err != nil {
		t.Fatal(err)
	}
	second := k.state(t)
	for name, o := range second {
		text, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), ":local\"") {
			t.Errorf("%s has the old image", name)
		}
	}
	for name, want := range map[string]int64{"Deployment/riffle-mixing/shuffler-worker": 2,
		"Deployment/riffle-mixing/ingress": 0, "StatefulSet/riffle-mixing/shuffler": 1} {
		if n, _, err := unstructured.NestedInt64(second[name].Object, "spec", "replicas"); err != nil || n != want {
			t.Errorf("%s has %d replicas, not %d: %v", name, n, want, err)
		}
	}

	// What cannot change: the API server refuses it, and the workload stays as it was.
	if err := upgrade(changes + "storageClass: other"); err == nil || !strings.Contains(err.Error(), "immutable") {
		t.Errorf("another class of volumes: %v", err)
	}
	if now := k.state(t)["StatefulSet/riffle-mixing/shuffler"]; !reflect.DeepEqual(now,
		second["StatefulSet/riffle-mixing/shuffler"]) {
		t.Error("an upgrade that was refused changed the shuffler")
	}
	// A value that the schema refuses never reaches the API server.
	if err := upgrade("channel: plain"); err == nil || !strings.Contains(err.Error(), "channel") {
		t.Errorf("no such channel: %v", err)
	}

	back := action.NewRollback(k.helm(t))
	back.Version, back.WaitStrategy = 1, kube.HookOnlyStrategy
	if err := back.Run(releaseName); err != nil {
		t.Fatal(err)
	}
	again := k.state(t)
	for _, name := range slices.Sorted(maps.Keys(first)) {
		if !reflect.DeepEqual(again[name], first[name]) {
			t.Errorf("after a rollback %s is\n%v\nand was\n%v", name, again[name], first[name])
		}
	}
	for name := range again {
		if first[name] == nil && !leftAlone(name) {
			t.Errorf("after a rollback there is %s", name)
		}
	}

	uninstall := action.NewUninstall(k.helm(t))
	uninstall.WaitStrategy = kube.HookOnlyStrategy
	if _, err := uninstall.Run(releaseName); err != nil {
		t.Fatal(err)
	}
	for name := range k.state(t) {
		if !leftAlone(name) {
			t.Errorf("%s is left", name)
		}
	}
	for _, side := range sides {
		if !k.namespace(t, side) {
			t.Errorf("uninstalling deletes the namespace %s with its keys", side)
		}
	}
}

// leftAlone reports whether an object is not helm's: the script of the keys made it.
func leftAlone(name string) bool {
	return slices.Contains([]string{"riffle-public", "nats-config"}, name[strings.LastIndex(name, "/")+1:])
}

// podIn is where a workload says what its pods are.
func podIn(o *unstructured.Unstructured) []string {
	if o.GetKind() == "CronJob" {
		return []string{"spec", "jobTemplate", "spec", "template", "spec"}
	}
	return []string{"spec", "template", "spec"}
}

// podsAreAdmitted creates the pod of each workload, as its controller would: what the namespaces enforce of pods is
// checked then, and not before.
func (k *cluster) podsAreAdmitted(t *testing.T) {
	t.Helper()
	pods := 0
	create := func(namespace string, spec corev1.PodSpec) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "p-", Namespace: namespace}, Spec: spec}
		_, err := k.client.CoreV1().Pods(namespace).Create(t.Context(), pod,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	for name, o := range k.state(t) {
		template, ok, err := unstructured.NestedMap(o.Object, podIn(o)...)
		if err != nil || !ok {
			continue
		}
		var spec corev1.PodSpec
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template, &spec); err != nil {
			t.Fatal(err)
		}
		for _, volume := range []string{"state", "data"} { // which a StatefulSet's controller adds
			spec.Volumes = append(spec.Volumes, corev1.Volume{Name: volume,
				VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
		}
		if err := create(o.GetNamespace(), spec); err != nil {
			t.Errorf("%s: its pod is refused: %v", name, err)
		}
		pods++
		// What this stands on: a pod that asks for more is refused.
		spec.Containers[0].SecurityContext.Capabilities = nil
		if err := create(o.GetNamespace(), spec); !apierrors.IsForbidden(err) {
			t.Errorf("%s: a pod with capabilities: %v", name, err)
		}
	}
	if pods != 8 {
		t.Errorf("%d workloads, not 8", pods)
	}
}

// keysAreHandedOut runs deploy/kubernetes/keys twice with the real kubectl.
func (k *cluster) keysAreHandedOut(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("kubectl"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Log("not tried, for there is no kubectl here: deploy/kubernetes/keys")
		return
	}
	dir := t.TempDir()
	riffle := filepath.Join(dir, "riffle")
	build := exec.Command("go", "build", "-C", "../../..", "-o", riffle, "./cmd/riffle")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	made := func() map[string]map[string][]byte {
		keys := exec.Command("../keys", filepath.Join(dir, "keys"))
		keys.Env = append(os.Environ(), "KUBECONFIG="+k.kubeconfig, "RIFFLE="+riffle)
		if out, err := keys.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		secrets := map[string]map[string][]byte{}
		for _, side := range sides {
			list, err := k.client.CoreV1().Secrets(side).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range list.Items {
				secrets[side+"/"+s.Name] = s.Data
			}
		}
		return secrets
	}
	once := made()
	names := slices.Sorted(maps.Keys(once))
	want := []string{"riffle-analysis/analyzer-keys", "riffle-analysis/analyzer-worker-keys", "riffle-broker/admin-keys",
		"riffle-broker/nats-tls", "riffle-devices/randomizer-main-keys", "riffle-mixing/ingress-keys",
		"riffle-mixing/shuffler-keys", "riffle-mixing/shuffler-worker-keys"}
	if !slices.Equal(names, want) {
		t.Errorf("secrets %v, not %v", names, want)
	}
	if !reflect.DeepEqual(once, made()) {
		t.Error("a second run changes keys")
	}
	// The volumes of every workload name what is there now.
	for name, o := range k.state(t) {
		volumes, _, err := unstructured.NestedSlice(o.Object, append(podIn(o), "volumes")...)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range volumes {
			secret, ok, _ := unstructured.NestedString(v.(map[string]any), "secret", "secretName")
			if ok && once[o.GetNamespace()+"/"+secret] == nil {
				t.Errorf("%s: no secret %s", name, secret)
			}
			config, ok, _ := unstructured.NestedString(v.(map[string]any), "configMap", "name")
			if !ok {
				continue
			}
			if _, err := k.client.CoreV1().ConfigMaps(o.GetNamespace()).Get(t.Context(), config,
				metav1.GetOptions{}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
