package role_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/role"
)

// What a page in a browser on this machine, or one whose name was made to lead here, could send to an ops listener or
// to the profiler gets nothing of them; programs that call it by one of its names are served.
func TestOpsListenersAreGuarded(t *testing.T) {
	t.Parallel()
	settings := role.DefaultSettings("127.0.0.1:0")
	settings.Ops.PProf = "127.0.0.1:0"
	settings.Ops.Hosts = []string{"shuffler.riffle-mixing.svc", "10.1.2.3"}
	read, log := io.Pipe()
	env, err := role.NewEnv("actor", settings, log)
	if err != nil {
		t.Fatal(err)
	}
	env.Handle("GET /{$}", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "page") }))
	addresses := make(chan [2]string, 1)
	go func() { addresses <- listening(read); io.Copy(io.Discard, read) }()
	stop := start(t, env, func(ctx context.Context) error { <-ctx.Done(); return nil })
	at := <-addresses
	ask := func(address, path, host string, header map[string]string) (int, string) {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, "http://"+address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		for k, v := range header {
			r.Header.Set(k, v)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s of %s: a page may see the answer", path, host)
		}
		return answer.StatusCode, string(body)
	}
	cross := map[string]string{"Sec-Fetch-Site": "cross-site"}
	for _, c := range []struct {
		host          string
		header        map[string]string
		ops, profiler int
	}{
		{"evil.example.com", nil, 403, 403}, {"evil.example.com:9403", nil, 403, 403},
		{"127.0.0.1.evil.example", nil, 403, 403}, {"notlocalhost", nil, 403, 403}, {"0.0.0.0", nil, 403, 403},
		{"10.1.2.4", nil, 403, 403}, {"shuffler", nil, 403, 403},
		{"localhost", map[string]string{"Origin": "https://evil.example"}, 403, 403},
		{"localhost", map[string]string{"Origin": "null"}, 403, 403},
		{"localhost", map[string]string{"Origin": "http://localhost:3000"}, 403, 403},
		{"localhost", cross, 403, 403},
		{"localhost", map[string]string{"Sec-Fetch-Site": "same-site"}, 403, 403},
		{"evil.example", map[string]string{"Sec-Fetch-Site": "same-origin"}, 403, 403},
		{"localhost", nil, 200, 200}, {"LOCALHOST:9403", nil, 200, 200}, {"127.0.0.1:1", nil, 200, 200},
		{"[::1]:9403", nil, 200, 200}, {"localhost", map[string]string{"Sec-Fetch-Site": "none"}, 200, 200},
		{"localhost", map[string]string{"Sec-Fetch-Site": "same-origin"}, 200, 200},
		{"shuffler.riffle-mixing.svc:9401", nil, 200, 403}, {"Shuffler.riffle-mixing.svc.", nil, 200, 403},
		{"10.1.2.3:9401", nil, 200, 403},
	} {
		for _, path := range []string{"/", "/metrics", "/healthz", "/readyz", "/elsewhere"} {
			want := c.ops
			if path == "/elsewhere" && want == 200 {
				want = 404
			}
			if status, body := ask(at[0], path, c.host, c.header); status != want ||
				status == 403 && !strings.Contains(body, "ops.hosts") && !strings.Contains(body, "by hand") {
				t.Errorf("%s under %q with %v: %d %q, want %d", path, c.host, c.header, status, body, want)
			}
		}
		if status, _ := ask(at[1], "/debug/pprof/cmdline", c.host, c.header); status != c.profiler {
			t.Errorf("the profiler under %q with %v: %d, want %d", c.host, c.header, status, c.profiler)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// listening reads a role's log until it says where the ops listener and the profiler are.
func listening(log io.Reader) (at [2]string) {
	for lines := json.NewDecoder(log); at[0] == "" || at[1] == ""; {
		var line struct{ Listener, Address string }
		if lines.Decode(&line) != nil {
			return at
		}
		switch line.Listener {
		case "ops.listen":
			at[0] = line.Address
		case "ops.pprof":
			at[1] = line.Address
		}
	}
	return at
}

// A request may call a process by the address that it came to: a probe of a container knows no other name.
func TestTheAddressThatARequestCameToIsAName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		local, host string
		want        bool
	}{
		{"10.1.2.3", "10.1.2.3:9401", true}, {"10.1.2.3", "10.1.2.4:9401", false}, {"10.1.2.3", "ten.example", false},
		{"fd00::7", "[fd00::7]:9401", true}, {"fd00::7", "[fd00::8]:9401", false},
		{"::ffff:10.1.2.3", "10.1.2.3", true},
		{"10.1.2.3", "", false}, {"10.1.2.3", "0.0.0.0", false}, {"10.1.2.3", "::", false},
	} {
		r, err := http.NewRequest(http.MethodGet, "http://x/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = c.host
		r = r.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey,
			net.Addr(&net.TCPAddr{IP: net.ParseIP(c.local), Port: 9401})))
		why, err := role.Callers{Key: "ops"}.Check(r)
		if c.want != (err == nil) || !c.want && why != role.ForeignHost {
			t.Errorf("at %s, %q: %q %v", c.local, c.host, why, err)
		}
	}
}

// Names that stand for every name, and addresses that stand for every address, allow none.
func TestNamesOfTheOpsListener(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "*", "http://x", "*.example"} {
		s := role.DefaultSettings("").Ops
		s.Hosts = []string{bad}
		if len(s.Validate()) != 1 {
			t.Errorf("%q: %v", bad, s.Validate())
		}
	}
	for listen, want := range map[string]int{"0.0.0.0:1": 0, "[::]:1": 0, ":1": 0, "mixing-in:9401": 1} {
		if c := role.CallersOf("ops", listen, nil, nil); len(c.Hosts) != want {
			t.Errorf("%s: %v", listen, c.Hosts)
		}
	}
}
