// Package check tests the manifests of deploy/kubernetes.
package check
