package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/service"
)

// What is wrong with a load test's command line is found before anybody is sent anywhere, and ends with the code for that.
func TestLoadRefusesBadCommandLines(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"--goal p99<=5", "unknown measure"},
		{"--goal p99_ms", "want a measure"},
		{"--goal p99<=5 --goal p99_ms --users -3 --late 2", "5 faults:"},
		{"--drop-out 0.7 --late 0.7 --users 10", "add up to 1.4"},
		{"--malformed -0.1 --users 10", "must be between 0 and 1"},
		{"--hostile-host evil --users 10", "needs the folder of its keys"},
		{"--users 10 --api http://127.0.0.1:1", "cannot be reached"},
		{"--users 10 extra", "unknown command"},
	} {
		cmd := root()
		var said bytes.Buffer
		cmd.SetOut(&said)
		cmd.SetErr(&said)
		cmd.SetArgs(append([]string{"load"}, strings.Fields(test.args)...))
		if code := service.Main(cmd); code != service.ExitConfig || !strings.Contains(said.String(), test.want) {
			t.Errorf("%s: exit code %d, %q", test.args, code, said.String())
		}
	}
}
