package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
)

// The authority that keygen left beside the keys vouches for a broker with a certificate, unless another one is named;
// a broker without one is not asked for it.
func TestTheAuthorityBesideTheKeysVouches(t *testing.T) {
	keys, without := t.TempDir(), t.TempDir()
	beside := filepath.Join(keys, keyring.AuthorityFile)
	if err := os.WriteFile(beside, []byte("authority"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		flags brokerFlags
		keys  string
		want  string
	}{
		{brokerFlags{url: "tls://broker:4222"}, keys, beside},
		{brokerFlags{url: "tls://broker:4222", tls: bus.TLS{CAFile: "own.pem"}}, keys, "own.pem"},
		{brokerFlags{url: "tls://broker:4222"}, without, ""},
		{brokerFlags{url: "nats://broker:4222"}, keys, ""},
	} {
		got := ""
		if o := c.flags.options(c.keys); o.TLS != nil {
			got = o.TLS.CAFile
		}
		if got != c.want {
			t.Errorf("%s with %s: %q vouches, want %q", c.flags.url, c.keys, got, c.want)
		}
	}
}
