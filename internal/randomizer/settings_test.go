package randomizer

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/role"
)

// A limit that cannot be is named as the operator wrote it: by its key, its value and where that came from.
func TestLimitsAreNamedByTheirKeys(t *testing.T) {
	wrong := map[string]string{
		"epsilon": "-3", "delta": "2", "min_cohort": "0", "dishonest": "1", "max_releases": "0", "max_norm": "-1",
		"max_messages": "0", "records": "-1", "period": "-1", "trust": "[smoke]", "epsilon_alone": "-1",
		"max_dishonest":   "-1",
		"max_report_size": "-1", "max_noise_bits": "-1",
	}
	args := []string{"--keys", "nowhere", "--state", "nowhere", "--check-config"}
	for key, value := range wrong {
		args = append(args, "--limits-"+strings.ReplaceAll(key, "_", "-"), strings.Trim(value, "[]"))
	}
	c := role.Command(Role())
	c.SetArgs(args)
	c.SetOut(io.Discard)
	c.SetErr(io.Discard)
	err := c.Execute()
	if err == nil {
		t.Fatal("taken")
	}
	for key, value := range wrong {
		if want := "limits." + key + " = " + value + " (--limits-" + strings.ReplaceAll(key, "_",
			"-") + ") must be "; !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
}

// --check-config finds files of the API that cannot be used: a start finds them only after it has the broker.
func TestFilesOfTheAPIAreChecked(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte(strings.Repeat("ab", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	c := role.Command(Role())
	c.SetArgs([]string{"--keys", "nowhere", "--state", "nowhere", "--check-config", "--api-tokens", tokens,
		"--api-tls-certificate", "none.pem", "--api-tls-key", "none.key"})
	c.SetOut(io.Discard)
	c.SetErr(io.Discard)
	err := c.Execute()
	if err == nil {
		t.Fatal("taken")
	}
	for _, want := range []string{"api.tokens = ", "line 1: want a name and a token", "api.tls.certificate = ",
		"keys = \"nowhere\""} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
}
