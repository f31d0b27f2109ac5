package check

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"
)

// TestChartLints: helm lint --strict has nothing to say.
func TestChartLints(t *testing.T) {
	for _, m := range lint.RunAll("../../chart", nil, "default").Messages {
		if m.Severity > support.InfoSev {
			t.Error(m)
		}
	}
}

// decoded is an object of a chart as a type of Kubernetes'.
func decoded[T any](t *testing.T, objects map[string]object, name string) T {
	t.Helper()
	text, err := yaml.Marshal(objects[name])
	if err != nil || objects[name] == nil {
		t.Fatalf("%s: %v", name, err)
	}
	v, err := strict[T](text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v
}

// TestChartOfOneParty: each party has its side in a cluster of its own, and a broker elsewhere. Nothing of another side
// is there, every role calls that broker, and none may call anything else but the name service.
func TestChartOfOneParty(t *testing.T) {
	const url = "tls://broker.example:5222"
	roles := map[string]int{"mixing": 3, "analysis": 2, "devices": 1} // that call the broker
	for side, callers := range roles {
		got, err := render(t, "sides: ["+side+"]\nbroker: {url: '"+url+"', networks: [192.0.2.7/32, '2001:db8::/64']}")
		if err != nil {
			t.Fatal(err)
		}
		told, permitted := 0, 0
		for name, o := range got {
			if !strings.Contains(name, "/riffle-"+side+"/") && name != "Namespace/<nil>/riffle-"+side {
				t.Errorf("%s: %s is there", side, name)
			}
			text, err := yaml.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "riffle-broker") {
				t.Errorf("%s: %s names brokers that are not there:\n%s", side, name, text)
			}
			told += strings.Count(string(text), "_BROKER_URL\n          value: "+url+"\n")
			if o["kind"] != "NetworkPolicy" {
				continue
			}
			for _, rule := range decoded[networkingv1.NetworkPolicy](t, got, name).Spec.Egress {
				if rule.To[0].IPBlock == nil {
					if rule.To[0].NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"] != "kube-system" {
						t.Errorf("%s: %s permits %+v", side, name, rule)
					}
					continue
				}
				permitted++
				if len(rule.To) != 2 || rule.To[0].IPBlock.CIDR != "192.0.2.7/32" || rule.To[1].IPBlock.CIDR != "2001:db8::/64" ||
					len(rule.Ports) != 1 || rule.Ports[0].Port.IntVal != 5222 {
					t.Errorf("%s: %s permits %+v", side, name, rule)
				}
			}
		}
		if told != callers || permitted != callers {
			t.Errorf("%s: %d roles are told of the broker, and %d may call it, not %d", side, told, permitted, callers)
		}
	}
}

// TestChartPods: where pods run and what they get, for one workload and for all of which nothing else is said.
func TestChartPods(t *testing.T) {
	got, err := render(t, `
pods:
  all: {nodeSelector: {pool: riffle}, tolerations: [{key: riffle, operator: Exists}], priorityClassName: high}
  shuffler: {cpu: "2", memory: 4096, storage: 50Gi, nodeSelector: {disk: fast}}
  provision: {memory: 256}
`)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := render(t, "")
	if err != nil {
		t.Fatal(err)
	}
	shuffler := decoded[appsv1.StatefulSet](t, got, "StatefulSet/riffle-mixing/shuffler").Spec
	c := shuffler.Template.Spec.Containers[0]
	if c.Resources.Requests.Cpu().String() != "2" || c.Resources.Limits.Memory().String() != "4Gi" ||
		c.Resources.Requests.Memory().String() != "128Mi" || len(c.Resources.Limits) != 1 {
		t.Errorf("the shuffler's resources: %+v", c.Resources)
	}
	if !slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "GOMEMLIMIT" && e.Value == "3584MiB" }) {
		t.Errorf("the shuffler's variables: %+v", c.Env)
	}
	if size := shuffler.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String(); size != "50Gi" {
		t.Errorf("the shuffler's volume has %s", size)
	}
	job := decoded[batchv1.CronJob](t, got, "CronJob/riffle-broker/provision").Spec.JobTemplate.Spec.Template.Spec
	if job.Containers[0].Resources.Limits.Memory().String() != "256Mi" {
		t.Errorf("provisioning: %+v", job.Containers[0].Resources)
	}
	ingress := decoded[appsv1.Deployment](t, got, "Deployment/riffle-mixing/ingress").Spec.Template.Spec
	for name, spec := range map[string]corev1.PodSpec{"ingress": ingress, "shuffler": shuffler.Template.Spec,
		"provision": job} {
		want := map[string]string{"pool": "riffle"}
		if name == "shuffler" {
			want["disk"] = "fast"
		}
		if !reflect.DeepEqual(spec.NodeSelector, want) || len(spec.Tolerations) != 1 ||
			spec.Tolerations[0].Operator != corev1.TolerationOpExists || spec.PriorityClassName != "high" {
			t.Errorf("%s: %+v, %+v, %q", name, spec.NodeSelector, spec.Tolerations, spec.PriorityClassName)
		}
	}
	if was := decoded[appsv1.Deployment](t, plain, "Deployment/riffle-mixing/ingress").Spec.Template.Spec; !reflect.DeepEqual(
		ingress.Containers, was.Containers) {
		t.Error("the ingress has other resources, though nothing is said of it")
	}
}
