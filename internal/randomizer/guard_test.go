package randomizer

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/randomizer/api"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/pkg/glm"
)

// A page that somebody opens in a browser on this machine can send requests here. It must not spend a person's record,
// nor read a ledger under a name that was made to lead here, whatever a browser lets it send; and programs on this
// machine are served.
func TestPagesAreNotServed(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.access.Callers = role.Callers{Key: "api", Hosts: []string{"gateway.clinic.example", "10.1.2.3"},
		Origins: []string{"https://app.clinic.example"}}
	s.start()
	s.open(s.Announcement(glm.Practical, 12))
	const ledger, status, decision, reward = "GET /v1/devices/x/ledger", "GET /v1/status",
		"POST /v1/devices/x/decisions", "POST /v1/rewards"
	all := []string{ledger, status, decision, reward, "GET /elsewhere", "OPTIONS /v1/rewards"}
	type header map[string]string
	json := func(more header) header {
		h := header{"Content-Type": "application/json"}
		for k, v := range more {
			h[k] = v
		}
		return h
	}
	request := func(what string, h header) *http.Response {
		t.Helper()
		method, path, _ := strings.Cut(what, " ")
		r, err := http.NewRequest(method, s.api.URL+path, strings.NewReader(twoArms))
		s.must(err)
		for k, v := range h {
			r.Header.Set(k, v)
		}
		r.Host = h["Host"]
		answer, err := http.DefaultClient.Do(r)
		s.must(err)
		defer answer.Body.Close()
		_, err = io.Copy(io.Discard, answer.Body)
		s.must(err)
		return answer
	}
	for _, c := range []struct {
		name   string
		header header
		paths  []string
		want   int
	}{
		{"rebound name", json(header{"Host": "evil.example"}), all, 403},
		{"rebound name with the port", json(header{"Host": "evil.example:8400"}), all, 403},
		{"name that ends in one of ours", json(header{"Host": "notlocalhost:8400"}), all, 403},
		{"name that begins with one of ours", json(header{"Host": "127.0.0.1.evil.example"}), all, 403},
		{"any address", json(header{"Host": "0.0.0.0:8400"}), all, 403},
		{"other machine's address", json(header{"Host": "10.1.2.4"}), all, 403},
		{"rebound name that is its own origin", json(header{"Host": "evil.example", "Origin": "http://evil.example",
			"Sec-Fetch-Site": "same-origin"}), all, 403},
		{"page", json(header{"Origin": "https://evil.example"}), all, 403},
		{"page in a sandbox", json(header{"Origin": "null"}), all, 403},
		{"page of another port", json(header{"Origin": "http://localhost:3000"}), all, 403},
		{"page like an allowed one", json(header{"Origin": "https://app.clinic.example.evil.example"}), all, 403},
		{"allowed page without TLS", json(header{"Origin": "http://app.clinic.example"}), all, 403},
		{"image in a page", header{"Sec-Fetch-Site": "cross-site"}, []string{ledger, status}, 403},
		{"image in a page of another port", header{"Sec-Fetch-Site": "same-site"}, []string{ledger, status}, 403},
		{"form of text", header{"Content-Type": "text/plain"}, []string{decision, reward}, 415},
		{"form", header{"Content-Type": "application/x-www-form-urlencoded"}, []string{decision, reward}, 415},
		{"file form", header{"Content-Type": "multipart/form-data; boundary=x"}, []string{decision, reward}, 415},
		{"beacon without a type", header{}, []string{decision, reward}, 415},
		{"two types", header{"Content-Type": "text/plain, application/json"}, []string{decision, reward}, 415},
	} {
		for _, path := range c.paths {
			r := request(path, c.header)
			if r.StatusCode != c.want {
				t.Errorf("%s, %s: %s, want %d", c.name, path, r.Status, c.want)
			}
			if r.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s, %s: its page may see the answer", c.name, path)
			}
		}
	}
	if n := len(s.enrolments()); n != 0 || len(s.host.State("x").Ledger.Entries) != 0 {
		t.Fatalf("%d devices were enrolled", n)
	}
	for i, h := range []header{
		json(header{"Host": "localhost:8401"}), json(header{"Host": "LOCALHOST"}),
		json(header{"Host": "127.0.0.1:8401"}), json(header{"Host": "[::1]:8400"}),
		json(header{"Host": "gateway.clinic.example:443"}), json(header{"Host": "10.1.2.3"}),
		{"Content-Type": "application/json; charset=utf-8"},
		json(header{"Origin": "https://app.clinic.example",
			"Sec-Fetch-Site": "cross-site"}), json(header{"Sec-Fetch-Site": "none"}),
	} {
		for _, path := range []string{ledger, status, "POST /v1/devices/" + string(rune('a'+i)) + "/decisions"} {
			r := request(path, h)
			if r.StatusCode != 200 {
				t.Errorf("%v, %s: %s", h, path, r.Status)
			}
			if got := r.Header.Get("Access-Control-Allow-Origin"); got != h["Origin"] {
				t.Errorf("%v, %s: pages of %q may see the answer", h, path, got)
			}
		}
	}
	asked := request("OPTIONS /v1/rewards", header{"Origin": "https://app.clinic.example"})
	if asked.StatusCode != 204 || asked.Header.Get("Access-Control-Allow-Headers") != "Authorization, Content-Type" {
		t.Errorf("an allowed page that asks whether it may send JSON: %s %v", asked.Status, asked.Header)
	}
	s.reports(9)
}

// What may be configured, and that an address that means every address allows no name.
func TestCallersOfTheAPI(t *testing.T) {
	for _, bad := range []api.Settings{
		{Listen: "127.0.0.1:1", Hosts: []string{""}}, {Listen: "127.0.0.1:1",
			Hosts: []string{"*"}}, {Listen: "127.0.0.1:1", Hosts: []string{"http://x"}},
		{Listen: "127.0.0.1:1", Origins: []string{"*"}}, {Listen: "127.0.0.1:1", Origins: []string{"x.example"}},
		{Listen: "127.0.0.1:1", Origins: []string{"https://x.example/"}}, {Listen: "10.0.0.1:1"}, {Listen: "nothing"},
	} {
		if len(bad.Validate()) != 1 {
			t.Errorf("%+v: %v", bad, bad.Validate())
		}
	}
	for listen, want := range map[string][]string{"0.0.0.0:1": {"x"}, "[::]:1": {"x"}, ":1": {"x"},
		"10.0.0.1:1": {"x", "10.0.0.1"}, "gate:1": {"x", "gate"}} {
		a := api.Settings{Listen: listen, Remote: true, Hosts: []string{"x"},
			Origins: []string{"https://x.example:444"}}
		if faults := a.Validate(); len(faults) != 0 {
			t.Errorf("%s: %v", listen, faults)
		}
		if got := a.Callers(); !slices.Equal(got.Hosts, want) {
			t.Errorf("%s: %v", listen, got)
		}
	}
}
