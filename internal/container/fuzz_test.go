package container_test

import (
	"net"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/container"
)

// FuzzForwards reads any text as the addresses that a door forwards. What is read has two addresses of a host and a
// port each, and is what was written.
func FuzzForwards(f *testing.F) {
	f.Add("0.0.0.0:8400=randomizer:8400 [::1]:1=a:2")
	f.Add("a=b")
	f.Add("a:1=b:2=c:3")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := container.ParseForwards(text)
		if err != nil {
			return
		}
		var again []string
		for _, forward := range all {
			for _, address := range []string{forward.Listen, forward.To} {
				if _, _, err := net.SplitHostPort(address); err != nil {
					t.Fatalf("%q: %v", text, err)
				}
			}
			again = append(again, forward.Listen+"="+forward.To)
		}
		if len(all) == 0 || strings.Join(again, " ") != strings.Join(strings.Fields(text), " ") {
			t.Fatalf("%q is read as %q", text, again)
		}
	})
}
