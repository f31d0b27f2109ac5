package check

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// workload is what a StatefulSet, a Deployment or a CronJob runs.
type workload struct {
	name, namespace string
	pod             corev1.PodTemplateSpec
	claims          []corev1.PersistentVolumeClaim
}

// manifests is the deployment as kustomize builds it, decoded.
type manifests struct {
	namespaces map[string]map[string]string // their labels
	workloads  map[string]workload
	policies   []networkingv1.NetworkPolicy
	services   map[string]corev1.Service
	configs    map[string]corev1.ConfigMap // by namespace/name
	kinds      map[string]int
}

// strict decodes a document into a type of Kubernetes', as its API server does: an unknown field, one in other letters'
// case, a field given twice and a wrong type are errors.
func strict[T any](text []byte) (v T, err error) {
	text, err = yaml.YAMLToJSONStrict(text)
	if err != nil {
		return v, err
	}
	faults, err := json.UnmarshalStrict(text, &v)
	return v, errors.Join(append(faults, err)...)
}

func build(t *testing.T) manifests {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "..")
	if err != nil {
		t.Fatal(err)
	}
	m := manifests{namespaces: map[string]map[string]string{}, workloads: map[string]workload{},
		services: map[string]corev1.Service{}, configs: map[string]corev1.ConfigMap{}, kinds: map[string]int{}}
	for _, r := range resources.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		at := r.GetNamespace() + "/" + r.GetName()
		m.kinds[r.GetKind()]++
		switch kind := r.GetApiVersion() + " " + r.GetKind(); kind {
		case "v1 Namespace":
			var v corev1.Namespace
			v, err = strict[corev1.Namespace](text)
			m.namespaces[v.Name] = v.Labels
		case "v1 Service":
			m.services[at], err = strict[corev1.Service](text)
		case "v1 ConfigMap":
			m.configs[at], err = strict[corev1.ConfigMap](text)
		case "apps/v1 StatefulSet":
			var v appsv1.StatefulSet
			v, err = strict[appsv1.StatefulSet](text)
			m.workloads[at] = workload{v.Name, v.Namespace, v.Spec.Template, v.Spec.VolumeClaimTemplates}
			if v.Spec.Selector == nil || fmt.Sprint(v.Spec.Selector.MatchLabels) != fmt.Sprint(v.Spec.Template.Labels) {
				t.Errorf("%s selects %v, its pods are labelled %v", at, v.Spec.Selector, v.Spec.Template.Labels)
			}
			if _, ok := m.services[v.Namespace+"/"+v.Spec.ServiceName]; !ok {
				t.Errorf("%s belongs to the service %q, which is not there", at, v.Spec.ServiceName)
			}
		case "apps/v1 Deployment":
			var v appsv1.Deployment
			v, err = strict[appsv1.Deployment](text)
			m.workloads[at] = workload{v.Name, v.Namespace, v.Spec.Template, nil}
			if v.Spec.Selector == nil || fmt.Sprint(v.Spec.Selector.MatchLabels) != fmt.Sprint(v.Spec.Template.Labels) {
				t.Errorf("%s selects %v, its pods are labelled %v", at, v.Spec.Selector, v.Spec.Template.Labels)
			}
		case "batch/v1 CronJob":
			var v batchv1.CronJob
			v, err = strict[batchv1.CronJob](text)
			m.workloads[at] = workload{v.Name, v.Namespace, v.Spec.JobTemplate.Spec.Template, nil}
		case "networking.k8s.io/v1 NetworkPolicy":
			var v networkingv1.NetworkPolicy
			v, err = strict[networkingv1.NetworkPolicy](text)
			m.policies = append(m.policies, v)
		case "policy/v1 PodDisruptionBudget":
			_, err = strict[policyv1.PodDisruptionBudget](text)
		default:
			err = fmt.Errorf("no test knows this kind: %s", kind)
		}
		if err != nil {
			t.Errorf("%s %s: %v", r.GetKind(), at, err)
		}
	}
	return m
}

func TestStrict(t *testing.T) {
	m := build(t)
	want := map[string]int{"Namespace": 4, "Service": 6, "ConfigMap": 4, "StatefulSet": 4, "Deployment": 3, "CronJob": 1,
		"NetworkPolicy": 12, "PodDisruptionBudget": 1}
	if fmt.Sprint(m.kinds) != fmt.Sprint(want) {
		t.Errorf("%v, not %v", m.kinds, want)
	}
	// What the test stands on: decoding does refuse.
	for _, wrong := range []string{
		"apiVersion: apps/v1\nkind: StatefulSet\nspec: {replica: 1}",
		"apiVersion: apps/v1\nkind: StatefulSet\nspec: {Replicas: 1}",
		"apiVersion: apps/v1\nkind: StatefulSet\nspec: {replicas: one}",
		"apiVersion: apps/v1\nkind: StatefulSet\nspec: {replicas: 1, replicas: 2}",
	} {
		if _, err := strict[appsv1.StatefulSet]([]byte(wrong)); err == nil {
			t.Errorf("decoded: %s", wrong)
		}
	}
}

func TestPodsAreConfined(t *testing.T) {
	m := build(t)
	for name, labels := range m.namespaces {
		if labels["pod-security.kubernetes.io/enforce"] != "restricted" {
			t.Errorf("namespace %s: %v", name, labels)
		}
	}
	for at, w := range m.workloads {
		spec := w.pod.Spec
		if _, ok := m.namespaces[w.namespace]; !ok {
			t.Errorf("%s: no such namespace", at)
		}
		s := spec.SecurityContext
		if s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.RunAsUser == nil || *s.RunAsUser == 0 ||
			s.RunAsGroup == nil || *s.RunAsGroup == 0 ||
			s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s: %+v", at, s)
		}
		if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken || spec.HostNetwork ||
			spec.HostPID || spec.HostIPC {
			t.Errorf("%s has a service account's token, or a namespace of its machine", at)
		}
		volumes := map[string]corev1.Volume{}
		for _, v := range spec.Volumes {
			volumes[v.Name] = v
			if v.HostPath != nil {
				t.Errorf("%s mounts its machine's %s", at, v.HostPath.Path)
			}
		}
		for _, c := range w.claims {
			volumes[c.Name] = corev1.Volume{}
		}
		for _, c := range append(slices.Clone(spec.InitContainers), spec.Containers...) {
			s := c.SecurityContext
			if s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem ||
				s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation ||
				s.Privileged != nil || s.Capabilities == nil ||
				!slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(s.Capabilities.Add) > 0 {
				t.Errorf("%s, %s: %+v", at, c.Name, s)
			}
			if c.Resources.Limits.Memory().IsZero() {
				t.Errorf("%s, %s: no limit of memory", at, c.Name)
			}
			if repository, tag, ok := strings.Cut(c.Image, ":"); !ok || tag == "" || tag == "latest" ||
				!strings.HasPrefix(repository, "riffle/") {
				t.Errorf("%s, %s: image %q", at, c.Name, c.Image)
			}
			for _, mount := range c.VolumeMounts {
				if _, ok := volumes[mount.Name]; !ok {
					t.Errorf("%s, %s mounts %q, which is not there", at, c.Name, mount.Name)
				}
			}
		}
	}
}

// TestSecretsStayOnTheirSide: what one side holds, no other side names.
func TestSecretsStayOnTheirSide(t *testing.T) {
	m := build(t)
	want := map[string][]string{
		"riffle-broker/nats":              {"nats-tls"},
		"riffle-broker/provision":         {"admin-keys"},
		"riffle-mixing/shuffler":          {"shuffler-keys"},
		"riffle-mixing/shuffler-worker":   {"shuffler-worker-keys"},
		"riffle-mixing/ingress":           {"ingress-keys"},
		"riffle-analysis/analyzer-worker": {"analyzer-worker-keys"},
		"riffle-analysis/analyzer":        {"analyzer-keys"},
		"riffle-devices/randomizer":       {"randomizer-main-keys"},
	}
	for at, w := range m.workloads {
		var secrets []string
		for _, v := range w.pod.Spec.Volumes {
			if v.Secret != nil {
				secrets = append(secrets, v.Secret.SecretName)
			}
			if v.ConfigMap != nil && v.ConfigMap.Name != "riffle-public" && v.ConfigMap.Name != "nats-config" {
				if _, ok := m.configs[w.namespace+"/"+v.ConfigMap.Name]; !ok {
					t.Errorf("%s: config map %s is not there", at, v.ConfigMap.Name)
				}
			}
		}
		for _, c := range append(slices.Clone(w.pod.Spec.InitContainers), w.pod.Spec.Containers...) {
			for _, e := range c.Env {
				if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
					t.Errorf("%s takes %s from a secret through its environment", at, e.Name)
				}
			}
		}
		if !slices.Equal(secrets, want[at]) {
			t.Errorf("%s has secrets %v, not %v", at, secrets, want[at])
		}
	}
	for at := range want {
		if _, ok := m.workloads[at]; !ok {
			t.Errorf("%s is not there", at)
		}
	}
}
