package check

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// place is a pod as policies see it.
type place struct {
	namespace string
	labels    map[string]string // the pod's
	of        map[string]string // the namespace's
}

func (p place) matches(namespace string, peer networkingv1.NetworkPolicyPeer) bool {
	if peer.IPBlock != nil {
		return true // an address could be that of any pod
	}
	if peer.NamespaceSelector == nil && namespace != p.namespace || peer.NamespaceSelector != nil &&
		!selects(peer.NamespaceSelector, p.of) {
		return false
	}
	return peer.PodSelector == nil || selects(peer.PodSelector, p.labels)
}

func selects(s *metav1.LabelSelector, of map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		panic(err)
	}
	return selector.Matches(labels.Set(of))
}

// allows reports whether policies let one pod call another at a port: the way out of the one, and the way into the
// other. It follows the rules of Kubernetes: a pod that no policy of a direction selects may do anything in that
// direction.
func allows(policies []networkingv1.NetworkPolicy, from, to place, port int32) bool {
	way := func(at, other place, kind networkingv1.PolicyType,
		rules func(networkingv1.NetworkPolicySpec) (peers [][]networkingv1.NetworkPolicyPeer,
			ports [][]networkingv1.NetworkPolicyPort)) bool {
		selected := false
		for _, p := range policies {
			if p.Namespace != at.namespace || !selects(&p.Spec.PodSelector, at.labels) ||
				!slices.Contains(p.Spec.PolicyTypes, kind) {
				continue
			}
			selected = true
			peers, ports := rules(p.Spec)
			for i := range peers {
				who := len(peers[i]) == 0 || slices.ContainsFunc(peers[i],
					func(peer networkingv1.NetworkPolicyPeer) bool { return other.matches(p.Namespace, peer) })
				where := len(ports[i]) == 0 || slices.ContainsFunc(ports[i],
					func(q networkingv1.NetworkPolicyPort) bool {
						return q.Port == nil || q.Port.IntVal == port && q.EndPort == nil
					})
				if who && where {
					return true
				}
			}
		}
		return !selected
	}
	out := way(from, to, networkingv1.PolicyTypeEgress,
		func(s networkingv1.NetworkPolicySpec) (peers [][]networkingv1.NetworkPolicyPeer,
			ports [][]networkingv1.NetworkPolicyPort) {
			for _, r := range s.Egress {
				peers, ports = append(peers, r.To), append(ports, r.Ports)
			}
			return peers, ports
		})
	in := way(to, from, networkingv1.PolicyTypeIngress,
		func(s networkingv1.NetworkPolicySpec) (peers [][]networkingv1.NetworkPolicyPeer,
			ports [][]networkingv1.NetworkPolicyPort) {
			for _, r := range s.Ingress {
				peers, ports = append(peers, r.From), append(ports, r.Ports)
			}
			return peers, ports
		})
	return out && in
}

// TestWhoReachesWhom works out from the policies who can call whom, for every pair of pods and every port, and compares
// it with what must be possible: roles call brokers, brokers call each other, labelled namespaces call what they are
// labelled for. Nothing else.
func TestWhoReachesWhom(t *testing.T) {
	m := build(t)
	places := map[string]place{}
	for at, w := range m.workloads {
		places[at] = place{w.namespace, w.pod.Labels, with(m.namespaces[w.namespace], "kubernetes.io/metadata.name",
			w.namespace)}
	}
	places["another pod in a role's namespace"] = place{"riffle-mixing", map[string]string{"app": "x"},
		with(m.namespaces["riffle-mixing"], "kubernetes.io/metadata.name", "riffle-mixing")}
	places["a pod in another namespace"] = place{"default", map[string]string{"app": "x"},
		map[string]string{"kubernetes.io/metadata.name": "default"}}
	places["monitoring"] = place{"mon", nil, map[string]string{"kubernetes.io/metadata.name": "mon",
		"riffle-dp.github.io/monitoring": "true"}}
	places["edge"] = place{"edge", nil, map[string]string{"kubernetes.io/metadata.name": "edge",
		"riffle-dp.github.io/edge": "true"}}
	places["apps"] = place{"apps", nil, map[string]string{"kubernetes.io/metadata.name": "apps",
		"riffle-dp.github.io/apps": "true"}}

	const broker = "riffle-broker/nats"
	want := map[string]bool{
		fmt.Sprint(broker, " ", broker, " ", 6222):                      true,
		fmt.Sprint("monitoring riffle-mixing/shuffler ", 9401):          true,
		fmt.Sprint("monitoring riffle-analysis/analyzer ", 9402):        true,
		fmt.Sprint("monitoring riffle-devices/randomizer ", 9403):       true,
		fmt.Sprint("monitoring riffle-mixing/shuffler-worker ", 9404):   true,
		fmt.Sprint("monitoring riffle-analysis/analyzer-worker ", 9405): true,
		fmt.Sprint("monitoring riffle-mixing/ingress ", 9406):           true,
		fmt.Sprint("edge riffle-mixing/ingress ", 8405):                 true,
		fmt.Sprint("apps riffle-devices/randomizer ", 8400):             true,
	}
	for _, role := range []string{"riffle-devices/randomizer", "riffle-mixing/shuffler", "riffle-analysis/analyzer",
		"riffle-broker/provision", "riffle-mixing/shuffler-worker", "riffle-mixing/ingress", "riffle-analysis/analyzer-worker"} {
		want[fmt.Sprint(role, " ", broker, " ", 4222)] = true
	}
	tried := 0
	for _, from := range slices.Sorted(maps.Keys(places)) {
		for to := range m.workloads {
			for _, port := range []int32{4222, 6222, 8222, 8400, 9401, 9402, 9403, 9404, 9405, 22} {
				tried++
				if got, call := allows(m.policies, places[from], places[to], port),
					fmt.Sprint(from, " ", to, " ", port); got != want[call] {
					t.Errorf("%s: possible %v", call, got)
				}
			}
		}
	}
	t.Logf("%d pairs of pods and ports", tried)
	// Any other pod in a namespace of Riffle has no access.
	for namespace, labels := range m.namespaces {
		unlisted := place{namespace, map[string]string{"app": "x"},
			with(labels, "kubernetes.io/metadata.name", namespace)}
		if allows(m.policies, unlisted, places["a pod in another namespace"], 443) ||
			allows(m.policies, places["a pod in another namespace"], unlisted, 80) {
			t.Errorf("a pod that no policy names may call or be called in %s", namespace)
		}
	}
	// The way out of a role's pod leads to the brokers and to the name service only.
	for at := range m.workloads {
		if allows(m.policies, places[at], places["a pod in another namespace"], 443) {
			t.Errorf("%s may call a pod in another namespace", at)
		}
	}
}

func with(labels map[string]string, key, value string) map[string]string {
	all := maps.Clone(labels)
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	return all
}
