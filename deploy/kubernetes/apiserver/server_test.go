package apiserver

import (
	"context"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/cli"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientapi "k8s.io/client-go/tools/clientcmd/api"
	apiservertesting "k8s.io/kubernetes/cmd/kube-apiserver/app/testing"
)

// cluster is an API server without anything that acts on what it stores: no pod runs.
type cluster struct {
	config     *rest.Config
	kubeconfig string
	client     *kubernetes.Clientset
	objects    *dynamic.DynamicClient
}

// start runs etcd and an API server until the test ends.
func start(t *testing.T) *cluster {
	t.Helper()
	c := embed.NewConfig()
	c.Dir, c.LogLevel = filepath.Join(t.TempDir(), "etcd"), "error"
	any, err := url.Parse("http://127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.ListenClientUrls, c.ListenPeerUrls = []url.URL{*any}, []url.URL{*any}
	c.AdvertiseClientUrls, c.AdvertisePeerUrls = c.ListenClientUrls, c.ListenPeerUrls
	c.InitialCluster = c.Name + "=" + any.String()
	etcd, err := embed.StartEtcd(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Close)
	<-etcd.Server.ReadyNotify()
	storage := storagebackend.NewDefaultConfig("/riffle", nil)
	storage.Transport.ServerList = []string{"http://" + etcd.Clients[0].Addr().String()}
	if _, file, _, _ := runtime.Caller(0); !filepath.IsAbs(file) { // compiled with -trimpath: it looks for its files here
		modules, err := exec.Command("go", "env", "GOMODCACHE").Output()
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("TEST_SRCDIR", strings.TrimSpace(string(modules)))
		t.Setenv("TEST_WORKSPACE", ".")
	}
	server, err := apiservertesting.StartTestServer(t, apiservertesting.NewDefaultTestServerOptions(),
		[]string{"--disable-admission-plugins=ServiceAccount"}, storage) // no controller makes the accounts
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.TearDownFn)
	k := &cluster{config: server.ClientConfig, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	file := clientapi.NewConfig()
	file.Clusters["c"] = &clientapi.Cluster{Server: k.config.Host, CertificateAuthority: k.config.CAFile,
		CertificateAuthorityData: k.config.CAData, TLSServerName: k.config.ServerName}
	file.AuthInfos["u"] = &clientapi.AuthInfo{Token: k.config.BearerToken}
	file.Contexts["x"] = &clientapi.Context{Cluster: "c", AuthInfo: "u"}
	file.CurrentContext = "x"
	if err := clientcmd.WriteToFile(*file, k.kubeconfig); err != nil {
		t.Fatal(err)
	}
	if k.client, err = kubernetes.NewForConfig(k.config); err != nil {
		t.Fatal(err)
	}
	if k.objects, err = dynamic.NewForConfig(k.config); err != nil {
		t.Fatal(err)
	}
	return k
}

// helm is what one call of the helm command has.
func (k *cluster) helm(t *testing.T) *action.Configuration {
	t.Helper()
	settings := cli.New()
	settings.KubeConfig = k.kubeconfig
	settings.SetNamespace(releaseNamespace)
	h := action.NewConfiguration()
	if err := h.Init(settings.RESTClientGetter(), releaseNamespace, "secrets"); err != nil {
		t.Fatal(err)
	}
	return h
}

// kinds are what the chart makes.
var kinds = map[string]schema.GroupVersionResource{
	"ConfigMap":           {Version: "v1", Resource: "configmaps"},
	"Service":             {Version: "v1", Resource: "services"},
	"StatefulSet":         {Group: "apps", Version: "v1", Resource: "statefulsets"},
	"Deployment":          {Group: "apps", Version: "v1", Resource: "deployments"},
	"CronJob":             {Group: "batch", Version: "v1", Resource: "cronjobs"},
	"NetworkPolicy":       {Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
	"PodDisruptionBudget": {Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
}

// state is all that is in the namespaces of Riffle, by kind/namespace/name, without what only the API server writes.
func (k *cluster) state(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	all := map[string]*unstructured.Unstructured{}
	for kind, resource := range kinds {
		list, err := k.objects.Resource(resource).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			if !strings.HasPrefix(o.GetNamespace(), "riffle-") || o.GetName() == "kube-root-ca.crt" {
				continue
			}
			for _, field := range []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"} {
				unstructured.RemoveNestedField(o.Object, "metadata", field)
			}
			unstructured.RemoveNestedField(o.Object, "status")
			all[fmt.Sprint(kind, "/", o.GetNamespace(), "/", o.GetName())] = o
		}
	}
	return all
}

// namespace reports whether a namespace is there and not on its way out.
func (k *cluster) namespace(t *testing.T, name string) bool {
	t.Helper()
	n, err := k.client.CoreV1().Namespaces().Get(context.WithoutCancel(t.Context()), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil && n.DeletionTimestamp == nil
}
