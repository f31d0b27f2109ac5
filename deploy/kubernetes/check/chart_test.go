package check

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// object is a document of manifests.
type object = map[string]any

// render is what helm makes of the chart and the values of a file of values, by kind/namespace/name.
func render(t *testing.T, values string) (map[string]object, error) {
	t.Helper()
	chart, err := loader.LoadDir("../../chart")
	if err != nil {
		t.Fatal(err)
	}
	given, err := common.ReadValues([]byte(values))
	if err != nil {
		t.Fatal(err)
	}
	at := common.ReleaseOptions{Name: "r", Namespace: "default", Revision: 3, IsInstall: true}
	all, err := util.ToRenderValues(chart, given, at, common.DefaultCapabilities) // checks the schema, as helm does
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return nil, err
	}
	objects := map[string]object{}
	for name, text := range files {
		if strings.HasSuffix(name, ".yaml") {
			collect(t, []byte(text), objects)
		}
	}
	return objects, nil
}

// collect adds the documents of a text.
func collect(t *testing.T, text []byte, objects map[string]object) {
	t.Helper()
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		var o object
		if err := yaml.UnmarshalStrict(document, &o); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		if len(o) == 0 {
			continue
		}
		meta := o["metadata"].(object)
		name := fmt.Sprint(o["kind"], "/", meta["namespace"], "/", meta["name"])
		if _, ok := objects[name]; ok {
			t.Errorf("%s is there twice", name)
		}
		objects[name] = o
	}
}

// generated is the end that kustomize gives to the name of a config map.
var generated = regexp.MustCompile(`(-config)-[0-9a-z]{10}\b`)

// TestChartIsTheManifests: without values the chart gives the objects that kustomize gives, but for what the chart's
// template says that it adds.
func TestChartIsTheManifests(t *testing.T) {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := resources.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]object{}
	collect(t, generated.ReplaceAll(text, []byte("$1")), want)
	got, err := render(t, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		o := got[name]
		switch meta := o["metadata"].(object); o["kind"] {
		case "Namespace":
			if fmt.Sprint(meta["annotations"]) != "map[helm.sh/resource-policy:keep]" {
				t.Errorf("%s: helm uninstall would delete keys and states", name)
			}
			delete(meta, "annotations")
		case "StatefulSet", "Deployment":
			meta := o["spec"].(object)["template"].(object)["metadata"].(object)
			if notes, ok := meta["annotations"].(object); ok {
				delete(notes, "checksum/config")
				if len(notes) == 0 {
					delete(meta, "annotations")
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if !reflect.DeepEqual(got[name], want[name]) {
			a, _ := yaml.Marshal(got[name])
			b, _ := yaml.Marshal(want[name])
			t.Errorf("%s differs. Chart:\n%s\nkustomize:\n%s", name, a, b)
		}
	}
	if len(got) != len(want) {
		t.Errorf("the chart has %d objects, kustomize %d", len(got), len(want))
	}
}

// TestChartValues: each value changes what it names.
func TestChartValues(t *testing.T) {
	got, err := render(t, `
image: {repository: registry.example:5000/team, tag: v1.2.3, pullSecrets: [pull]}
channel: shares
config: {analyzer: {learner: {dimension: 8, horizon: 20000000}}, randomizer: {limits: {epsilon: 2}}}
workers: {shuffler: 2, analyzer: 3}
ingress: 5
storageClass: fast
`)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := render(t, "")
	if err != nil {
		t.Fatal(err)
	}
	text := func(name string) string {
		b, err := yaml.Marshal(got[name])
		if err != nil || got[name] == nil {
			t.Fatalf("%s: %v", name, err)
		}
		return string(b)
	}
	for name, o := range got {
		for _, m := range regexp.MustCompile(`image: (\S+)`).FindAllStringSubmatch(text(name), -1) {
			if !regexp.MustCompile(`^registry\.example:5000/team/[a-z]+:v1\.2\.3$`).MatchString(m[1]) {
				t.Errorf("%s: image %s", name, m[1])
			}
		}
		switch o["kind"] {
		case "StatefulSet", "Deployment", "CronJob":
			if !strings.Contains(text(name), "imagePullSecrets:") {
				t.Errorf("%s: no secret to pull with", name)
			}
		}
		if o["kind"] == "StatefulSet" && !strings.Contains(text(name), "storageClassName: fast\n") {
			t.Errorf("%s: no class of volumes", name)
		}
	}
	const analyzer = "StatefulSet/riffle-analysis/analyzer"
	for name, parts := range map[string][]string{
		analyzer: {"name: RIFFLE_ANALYZER_PRIVACY_CHANNEL\n          value: shares\n"},
		"Deployment/riffle-mixing/shuffler-worker":      {"replicas: 2\n"},
		"Deployment/riffle-analysis/analyzer-worker":    {"replicas: 3\n"},
		"Deployment/riffle-mixing/ingress":              {"replicas: 5\n"},
		"ConfigMap/riffle-mixing/shuffler-config":       {"min_cohort: 50\n", "workers:\n      enabled: true\n"},
		"ConfigMap/riffle-devices/randomizer-config":    {"epsilon: 2\n", "delta: 1e-06\n", "min_cohort: 50\n"},
		"ConfigMap/riffle-analysis/analyzer-config":     {"dimension: 8\n", "horizon: 20000000\n", "enabled: true\n", "radius: 3\n"},
		"CronJob/riffle-broker/provision":               {"- name: pull\n", "schedule: '*/5 * * * *'\n"},
		"PodDisruptionBudget/riffle-broker/nats":        {"maxUnavailable: 1\n"},
		"ConfigMap/riffle-mixing/ingress-config":        {"10.0.0.0/8"},
		"NetworkPolicy/riffle-analysis/analyzer-worker": {"port: 9405\n"},
		"StatefulSet/riffle-mixing/shuffler":            {"checksum/config: "},
		"StatefulSet/riffle-broker/nats":                {"replicas: 3\n"},
		"Namespace/<nil>/riffle-devices":                {"restricted"},
	} {
		for _, part := range parts {
			if !strings.Contains(text(name), part) {
				t.Errorf("%s does not say %q:\n%s", name, part, text(name))
			}
		}
	}
	// A change of a role's configuration begins its pods anew, and no others.
	sum := func(all map[string]object, name string) string {
		b, _ := yaml.Marshal(all[name])
		_, rest, _ := strings.Cut(string(b), "checksum/config: ")
		line, _, _ := strings.Cut(rest, "\n")
		return line
	}
	if a := sum(got, analyzer); a == "" || a == sum(plain, analyzer) {
		t.Errorf("checksum %q with another configuration", a)
	}
	if name := "Deployment/riffle-mixing/ingress"; sum(got, name) != sum(plain, name) {
		t.Errorf("%s begins anew although its configuration is the same", name)
	}
	for name, o := range got {
		if o["kind"] == "ConfigMap" {
			if _, err := strict[corev1.ConfigMap]([]byte(text(name))); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestChartRefuses: values that no cluster should see are refused before anything is rendered.
func TestChartRefuses(t *testing.T) {
	for name, values := range map[string]string{
		"unknown value":                "replicas: 3",
		"unknown value below":          "image: {name: x}",
		"a tag that moves":             "image: {tag: latest}",
		"a tag with another line":      `image: {tag: "v1\n- name: x"}`,
		"a tag of another type":        "image: {tag: 12}",
		"a tag with a digest's sign":   "image: {tag: v1@sha256}",
		"a template in a tag":          `image: {tag: "{{ .Release.Name }}"}`,
		"a repository with a space":    `image: {repository: "a b"}`,
		"a repository that ends in /":  "image: {repository: a/}",
		"a repository with a command":  `image: {repository: "a$(id)"}`,
		"an empty repository":          `image: {repository: ""}`,
		"pull secrets as objects":      "image: {pullSecrets: [{name: x}]}",
		"a pull secret with a path":    "image: {pullSecrets: [../x]}",
		"no such channel":              "channel: plain",
		"two channels":                 "channel: [shuffle, shares]",
		"a channel of nothing":         "channel: null",
		"no such role":                 "config: {broker: {a: 1}}",
		"configuration as text":        `config: {analyzer: "epsilon: 9"}`,
		"a configuration's odd key":    `config: {analyzer: {"a b": 1}}`,
		"keys from elsewhere":          "config: {analyzer: {keys: /tmp}}",
		"state elsewhere":              "config: {shuffler: {state: /tmp}}",
		"another broker":               "config: {randomizer: {broker: {url: nats://evil}}}",
		"another host":                 "config: {randomizer: {host: other}}",
		"an API elsewhere":             `config: {randomizer: {api: {listen: "0.0.0.0:1"}}}`,
		"an ingress elsewhere":         `config: {ingress: {http: {listen: "0.0.0.0:1"}}}`,
		"the channel in two places":    "config: {analyzer: {privacy: {channel: central}}}",
		"workers in two places":        "config: {analyzer: {workers: {enabled: true}}}",
		"fewer than no workers":        "workers: {shuffler: -1, analyzer: 0}",
		"half a worker":                "workers: {shuffler: 0.5, analyzer: 0}",
		"workers as text":              `workers: {shuffler: "2", analyzer: 0}`,
		"too many of the ingress":      "ingress: 100000",
		"a side without its broker":    "sides: [mixing]",
		"no side":                      "sides: []",
		"a side twice":                 "sides: [mixing, mixing, analysis]",
		"no such side":                 "sides: [mixing, analysis, broker]",
		"a broker in clear text":       `broker: {url: "nats://broker.example:4222", networks: [192.0.2.7/32]}`,
		"a broker without a port":      `broker: {url: "tls://broker.example", networks: [192.0.2.7/32]}`,
		"a broker anywhere":            `broker: {url: "tls://broker.example:4222"}`,
		"networks of no broker":        "broker: {networks: [192.0.2.7/32]}",
		"an address as a network":      `broker: {url: "tls://broker.example:4222", networks: [192.0.2.7]}`,
		"no such workload":             "pods: {broker: {memory: 512}}",
		"memory with a unit":           "pods: {ingress: {memory: 512Mi}}",
		"memory of all pods":           "pods: {all: {memory: 512}}",
		"another user":                 "pods: {ingress: {securityContext: {runAsUser: 0}}}",
		"the host's network":           "pods: {all: {hostNetwork: true}}",
		"a volume that is not there":   "pods: {ingress: {storage: 5Gi}}",
		"a volume too large for nats":  "pods: {nats: {storage: 50Gi}}",
		"a selector of numbers":        "pods: {all: {nodeSelector: {a: 1}}}",
		"a storage class with a line":  `storageClass: "a\nb"`,
		"a storage class in big words": "storageClass: Fast",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := render(t, values); err == nil {
				t.Errorf("rendered: %s", values)
			}
		})
	}
	if _, err := render(t, "config: {randomizer: {api: {tokens: /x}}, ingress: {http: {relays: [192.0.2.7]}}}"); err != nil {
		t.Errorf("a good value is refused: %v", err)
	}
}
