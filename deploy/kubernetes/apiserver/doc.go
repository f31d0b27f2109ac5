// Package apiserver tries deploy/chart and deploy/kubernetes on a real API server. It has no code of its own.
package apiserver
