package randomizer

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// What one person does in an epoch: how often they decide, on what, and which rewards come.
var lives = map[string]func(p *panelScene, device string){
	"nothing": func(*panelScene, string) {},
	"one":     func(p *panelScene, device string) { p.lives(device, 1, twoArms, "1") },
	"as many as a report holds": func(p *panelScene, device string) {
		p.lives(device, panelDecisions, twoArms, "1")
	},
	"more":           func(p *panelScene, device string) { p.lives(device, 4*panelDecisions, twoArms, "0") },
	"without reward": func(p *panelScene, device string) { p.lives(device, 2, twoArms, "") },
	"other arms": func(p *panelScene, device string) {
		p.lives(device, 2, `{"arms": [[0.6172839451, -0.3], [0, 1], [0.1, 0.1]]}`, "0.7312907")
	},
	"arms that cannot be read": func(p *panelScene, device string) { p.lives(device, 2, `{"arms": [[0.1, `, "1") },
	"empty arms":               func(p *panelScene, device string) { p.lives(device, 2, `{"arms": []}`, "1") },
	"a connection that is cut": func(p *panelScene, device string) { p.cut(device, twoArms) },
}

func (p *panelScene) lives(device string, times int, arms, reward string) {
	for range times {
		_, answer := p.post("/v1/devices/"+device+"/decisions", arms)
		if reward != "" {
			p.post("/v1/rewards", fmt.Sprintf(`{"token": %q, "reward": %s}`, fmt.Sprint(answer["token"]), reward))
		}
	}
}

// status is the host's status without how many bodies could not be used, which is for the person's own app: nothing
// else shows it (TestMalformedBodiesShowToTheAppAlone).
func (p *panelScene) status() string {
	_, now := p.get("/v1/status")
	delete(now, "malformed")
	return fmt.Sprint(now)
}

// panelView is what everybody but the person sees of an epoch. Devices are known by the order of their names.
type panelView struct {
	Requests map[int]map[int]bool // by device: sizes
	Reports  map[int]map[int]int  // by device: how many of each size
	Told     []string             // what everybody else's app is told
	Status   string
	Ledgers  []string // of everybody, the person included
	Accounts string
}

// Whatever a person decides in the epoch, nothing outside is another for it: who registers and asks, who reports, how
// often, how much and when, what everybody else is told, accounts, status, ledgers, log and disk. Seven devices, of
// which the person is in the panel; and once more where the person is not.
func TestDecisionsChangeNothingOutside(t *testing.T) {
	t.Parallel()
	sides := []bool{true, false}
	if testing.Short() {
		sides = sides[:1]
	}
	for _, in := range sides {
		chosen := lives
		if testing.Short() || !in {
			chosen = map[string]func(*panelScene, string){"nothing": lives["nothing"], "more": lives["more"]}
		}
		views := make(chan func(map[string]panelView), len(chosen))
		t.Run(fmt.Sprintf("in the panel %v", in), func(t *testing.T) {
			for name, live := range chosen {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					// What is asked once more because an answer came too late is not comparable: a machine that is too
					// busy for that has the epoch once more.
					v, inTime := panelView{}, false
					for tries := 0; !inTime; tries++ {
						if tries > 3 {
							t.Fatal("this machine is too busy")
						}
						v, inTime = epochOf(t, in, live)
					}
					views <- func(all map[string]panelView) { all[name] = v }
				})
			}
		})
		close(views)
		all := map[string]panelView{}
		for enter := range views {
			enter(all)
		}
		for name, v := range all {
			if !reflect.DeepEqual(v, all["nothing"]) {
				t.Errorf("in the panel %v: of a person who does %q the outside sees\n%+v\ninstead of\n%+v", in, name, v,
					all["nothing"])
			}
		}
	}
}

// epochOf returns what is seen of an epoch, and whether every device registered with one request.
func epochOf(t *testing.T, in bool, live func(*panelScene, string)) (panelView, bool) {
	s := newScene(t)
	p := ofPanels(s)
	s.config.Enrolments = testbed.Account(t, "enrolment", nil, EnrolmentReasons())
	s.start()
	a := p.next(testbed.Long)
	rank, members := map[uint32]int{}, []uint32(nil)
	names := []string{"p0", "p1", "p2", "p3", "p4", "p5", "p6"}
	for i, name := range names {
		number := p.name(name)
		rank[number] = i
		if i < 3 || i == 3 && in {
			members = append(members, number)
		}
	}
	const person = 3
	live(p, names[person]) // before the draw, too
	p.drawNow(a, members...)
	p.awaitDraw(len(members))
	inTime, v := true, panelView{Requests: map[int]map[int]bool{}, Reports: map[int]map[int]int{}}
	live(p, names[person])
	for i, name := range names {
		if i != person {
			d := s.decide(name, twoArms)
			v.Told = append(v.Told, fmt.Sprint(d["sampled"], d["reason"], d["epoch"], d["reward_by"] != nil))
		}
	}
	v.Status = p.status()
	p.mu.Lock()
	due := p.drawnAt.Add(a.Timing.RewardWindow)
	p.mu.Unlock()
	if early := s.arrivals(); len(early) != 0 {
		t.Errorf("%d reports before they are due", len(early))
	}
	s.clock.Pass(due.Sub(s.clock.Now()) + a.Timing.Jitter)
	for _, r := range s.reports(len(members)) {
		report := s.Open(r.envelope, a)
		if v.Reports[rank[report.Device]] == nil {
			v.Reports[rank[report.Device]] = map[int]int{}
		}
		v.Reports[rank[report.Device]][len(r.envelope)]++
		if len(r.envelope) != wire.EnvelopeSize(a.ReportMessages()*seal.BitSize) {
			t.Errorf("a report of %d bytes", len(r.envelope))
		}
		if late := r.at.Sub(due); late < -10*time.Millisecond || late > patience {
			t.Errorf("a report %v after the panel's time", late)
		}
	}
	live(p, names[person])
	for _, name := range names {
		v.Ledgers = append(v.Ledgers, p.says("/v1/devices/"+name+"/ledger"))
	}
	v.Status += p.status()
	v.Accounts = fmt.Sprintf("%+v %+v", s.config.Enrolments.Balance(), s.config.Reports.Balance())
	p.mu.Lock()
	for key, n := range p.asks {
		i := rank[uint32(key[0])]
		if v.Requests[i] == nil {
			v.Requests[i] = map[int]bool{}
		}
		v.Requests[i][int(key[1])] = true
		if key[1] == 0 && n > 1 { // an answer came too late, and where that is a mistake it does every time
			inTime = false
		} else if n < 1 {
			t.Errorf("device %d asks %d times under epoch %d", i, n, key[1])
		}
	}
	p.mu.Unlock()
	s.must(s.stop())
	marks := testbed.Marks(0.6172839451, 0.7312907)
	if found, _ := testbed.FindInFolder(t, s.config.StateDir, marks); len(found) > 0 {
		t.Errorf("the disk has %v", found)
	}
	if found := testbed.Find([]byte(s.logged.String()), marks); len(found) > 0 {
		t.Errorf("the log has %v", found)
	}
	for _, line := range strings.Split(strings.TrimSpace(s.logged.String()), "\n") {
		if !strings.Contains(line, "announcement in force") {
			t.Errorf("the log says %s", line)
		}
	}
	return v, inTime
}

// says is what the API answers, without times.
func (p *panelScene) says(path string) string {
	p.t.Helper()
	_, answer := p.get(path)
	text, err := json.Marshal(answer)
	p.must(err)
	return string(text)
}
