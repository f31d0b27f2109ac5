package randomizer

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/riffle-dp/riffle/internal/randomizer/api"
	"github.com/riffle-dp/riffle/internal/testing/allocated"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
)

// begin opens a connection to the API and sends a decision's header, and what of its body is given.
func (s *scene) begin(device, header, body string) net.Conn {
	s.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.api.URL, "http://"))
	s.must(err)
	s.t.Cleanup(func() { _ = c.Close() })
	_, err = fmt.Fprintf(c,
		"POST /v1/devices/%s/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "+
			"application/json\r\n%s\r\n%s", device, header, body)
	s.must(err)
	return c
}

// Whoever comes first has the earlier slot, however long their body takes: a device enrols on the header of its
// request, before the first byte of the arms. A body that stalls ends in bounded time, and the device reports the null
// record when it promised to.
func TestAStalledBodyKeepsItsPlace(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.bounds.Time = 3 * time.Second
	s.start()
	a := s.unhurried(12)
	s.open(a)
	headers := []string{"Content-Length: 40\r\n", "Content-Length: 40\r\nExpect: 100-continue\r\n",
		"Transfer-Encoding: chunked\r\n"}
	var stalled []net.Conn
	for i, header := range headers {
		stalled = append(stalled, s.begin(fmt.Sprint("a", i), header, ""))
		testbed.Eventually(t, "enrolled", func() bool { return len(s.enrolments()) == 2*i+1 })
		s.decide(fmt.Sprint("b", i), twoArms)
		if e := s.enrolments(); len(e) != 2*i+2 || e[2*i].slot != uint32(2*i) ||
			e[2*i].device != s.device(fmt.Sprint("a", i)).Number {
			t.Fatalf("%q: a body that stalls moves its person: %+v", header, e)
		}
	}
	for i, header := range headers {
		s.must(stalled[i].SetReadDeadline(time.Now().Add(testbed.Patience)))
		answers := bufio.NewReader(stalled[i])
		r, err := http.ReadResponse(answers, nil)
		if err == nil && r.StatusCode == http.StatusContinue {
			r, err = http.ReadResponse(answers, nil)
		}
		s.must(err)
		if r.StatusCode != http.StatusRequestTimeout {
			t.Errorf("%q: the stalled request ends with %d", header, r.StatusCode)
		}
		held := s.host.promises.of(s.host.places.get(fmt.Sprint("a", i)).state.Number)
		if held == nil {
			t.Fatalf("%q: no promise is held", header)
		}
		held.dev.mu.Lock()
		if _, kept := held.record.Remember([]float64{1, 0}, glm.Decision{Weight: 1}); !kept {
			t.Errorf("%q: the record of a person whose arms never came is not null", header)
		}
		held.dev.mu.Unlock()
	}
	s.due(a)
	s.reports(6)
}

// A client that waits to be asked for its body (Expect: 100-continue) is asked after its device is enrolled, and then
// served.
func TestABodyIsAskedForAfterEnrolment(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.Announcement(glm.Practical, 12))
	c := s.begin("x", fmt.Sprintf("Content-Length: %d\r\nExpect: 100-continue\r\n", len(twoArms)), "")
	testbed.Eventually(t, "enrolled", func() bool { return len(s.enrolments()) == 1 })
	answers := bufio.NewReader(c)
	if r, err := http.ReadResponse(answers, nil); err != nil || r.StatusCode != http.StatusContinue {
		t.Fatal(r, err)
	}
	_, err := io.WriteString(c, twoArms)
	s.must(err)
	if r, err := http.ReadResponse(answers, nil); err != nil || r.StatusCode != http.StatusOK {
		t.Fatal(r, err)
	}
	s.reports(1)
}

// Eight concurrent bodies of 4 MB, and then 64, take less than 64 MB together, whatever they hold; each is refused
// after its device was enrolled, as too large or once something else is wrong with it, and each device reports.
func TestBodiesTakeBoundedMemory(t *testing.T) { // not parallel: it looks at the memory of the whole process
	s := newScene(t)
	s.start()
	a := s.Announcement(glm.Practical, 100)
	a.Timing.RewardWindow = time.Second
	s.open(a)
	bodies := testbed.HostileDecisions(twoArms)
	runtime.GC()
	for _, concurrent := range []int{8, 64} {
		grown := allocated.Peak(func() {
			var wg sync.WaitGroup
			for i := range concurrent {
				wg.Go(func() {
					var body io.Reader = bytes.NewReader(bodies[i%len(bodies)])
					if i/len(bodies)%2 == 1 {
						body = io.MultiReader(body) // of a length that nobody knows beforehand
					}
					r, err := http.Post(fmt.Sprintf("%s/v1/devices/b%d-%d/decisions", s.api.URL, concurrent, i),
						"application/json", body)
					if err != nil {
						return // cut off while it was still sending
					}
					defer r.Body.Close()
					if r.StatusCode != http.StatusRequestEntityTooLarge &&
						(r.StatusCode != http.StatusUnprocessableEntity || i/len(bodies)%2 == 0) {
						t.Errorf("body %d: %s", i%len(bodies), r.Status)
					}
				})
			}
			wg.Wait()
		})
		if t.Logf("%d bodies of 4 MB: %d MB more; the process had at most %s", concurrent, grown>>20,
			highWater()); grown > 64<<20 {
			t.Errorf("%d bodies of 4 MB take %d MB", concurrent, grown>>20)
		}
	}
	if n := len(s.enrolments()); n != 72 {
		t.Errorf("%d of 72 devices were enrolled", n)
	}
	s.reports(72)
}

// Bodies that stall take the room of bodies, never that of enrolment: those who come while it is all taken are enrolled
// in time, and their bodies are refused.
func TestStalledBodiesHoldUpNobodysEnrolment(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	const oneDecision = 123904 // the most bytes of a decision in two dimensions
	s.bounds = api.Bounds{Time: 2 * patience, Bytes: oneDecision, Requests: 1}
	s.start()
	s.host.enrolments.waiting = semaphore.NewWeighted(2)
	a := s.unhurried(12) // else the first device reports, and its body ends, before the second one comes
	s.open(a)
	stalled := s.begin("a", "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n", "")
	// It is asked for its body once it has the room.
	if r, err := http.ReadResponse(bufio.NewReader(stalled), nil); err != nil || r.StatusCode != http.StatusContinue {
		t.Fatal(r, err)
	}
	if status, answer := s.post("/v1/devices/b/decisions", twoArms); status != http.StatusServiceUnavailable ||
		answer["reason"] != "busy" {
		t.Errorf("%d %v", status, answer)
	}
	if n := len(s.enrolments()); n != 2 {
		t.Errorf("%d are enrolled", n)
	}
	s.due(a)
	s.reports(2)
}

// highWater is the most memory that the process has had, as the kernel tells it.
func highWater() string {
	b, _ := os.ReadFile("/proc/self/status") // elsewhere than on Linux there is none
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return strings.TrimSpace(rest)
		}
	}
	return "unknown"
}
