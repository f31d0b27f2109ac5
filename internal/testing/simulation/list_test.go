package simulation

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"github.com/riffle-dp/riffle/pkg/plan"
)

// Kind is what an operation does.
type Kind string

// The operations. Who is a process: "shuffler", "analyzer", "host-0" and so on.
const (
	Decide Kind = "decide" // N new people decide on the host Who
	Reward Kind = "reward" // everybody on the host Who who decided and has no reward gets one
	Wait   Kind = "wait"   // Ms pass
	Stall  Kind = "stall"  // Who stands still for Ms
	// Who is killed What ("before" or "after") its N-th write from now; "before log": to what has "log" in its name,
	// which may be "journal", "log", "store" (a file), "put" or "seal"
	Crash      Kind = "crash"
	Restart    Kind = "restart"    // Who is killed and started with What: the "same" state, an "older" one, or "lost"
	Copy       Kind = "copy"       // a copy of Who's disk is made, for Restart
	Drop       Kind = "drop"       // the next N requests or deliveries What of Who are lost
	LoseAnswer Kind = "lose"       // the answers to the next N requests What of Who are lost
	Double     Kind = "double"     // the next N requests or deliveries What of Who arrive twice
	Delay      Kind = "delay"      // the next N requests, answers or deliveries What of Who take Ms
	Reorder    Kind = "reorder"    // for Ms, everything takes up to half a second, in any order
	Partition  Kind = "partition"  // Who is cut off from the broker for Ms
	Rotate     Kind = "rotate"     // Who (shuffler or analyzer) is restarted with a new HPKE key beside the old ones
	Jump       Kind = "jump"       // Who's machine was suspended for Ms: its clocks are ahead by that
	Fill       Kind = "fill"       // the disk of Who, or of the "broker", has no room for Ms
	PowerLoss  Kind = "power-loss" // the broker loses power, and the last N writes that it had not synced
)

// Operation is one step of a list.
type Operation struct {
	Do   Kind   `json:"do"`
	Who  string `json:"who,omitempty"`
	What string `json:"what,omitempty"`
	N    int    `json:"n,omitempty"`
	Ms   int    `json:"ms,omitempty"`
}

// List is a run: what happens, and the seed of everything that chance decides.
type List struct {
	Seed    uint64       `json:"seed"`
	Channel plan.Channel `json:"channel"`
	// Panel says that cohorts are drawn from registered devices; otherwise devices enrol as they decide.
	Panel bool `json:"panel,omitempty"`
	// Paper says that the profile is that of the seed paper: several rounds in an epoch.
	Paper bool `json:"paper,omitempty"`
	// Program says that the profile is linucb, a program.
	Program bool `json:"program,omitempty"`
	// ServerNoise says that the servers add noise bits, too.
	ServerNoise bool        `json:"server_noise,omitempty"`
	Ops         []Operation `json:"ops"`
}

// String is the list as a file of testdata/lists holds it, on one line.
func (l List) String() string {
	b, err := json.Marshal(l)
	if err != nil {
		return fmt.Sprint(err)
	}
	return string(b)
}

// hosts is how many hosts a simulated deployment has.
const hosts = 3

// who are the processes, in the order in which they start.
func who() []string { return []string{"shuffler", "analyzer", "host-0", "host-1", "host-2"} }

func hostName(n int) string { return fmt.Sprintf("host-%d", n) }

// requests are the names of requests and deliveries that operations are about, by process.
func requests(name string) []string {
	switch name {
	case "shuffler":
		return []string{"Deliver", "Ack", "PublishChunk", "PublishManifest", "AppendAuditAfter", "Serve", "PutKeys",
			"ReadManifest", "Backlog", "Notice", "GetReport", "PurgeReports", "ReadPrepared"}
	case "analyzer":
		return []string{"Deliver", "Ack", "PutAnnouncement", "AppendAuditAfter", "ReadManifest", "PublishPrepared",
			"ReadChunk", "PurgeMixed", "Audited"}
	}
	return []string{"PublishReport", "EnrolOnce", "Notice", "Announcements"}
}

// written are the names of a process's writes.
func written(name string) []string {
	switch name {
	case "shuffler", "analyzer":
		return []string{"log", "store", "journal", "remove"}
	}
	return []string{"put", "seal", "sent", "follow"}
}

// Generate draws a list.
func Generate(seed uint64) List {
	r := rand.New(rand.NewPCG(seed, 0x5eed))
	channels := plan.Channels()
	l := List{Seed: seed, Channel: channels[seed%uint64(len(channels))], Panel: r.IntN(4) == 0}
	pick := func(of []string) string { return of[r.IntN(len(of))] }
	servers := []string{"shuffler", "analyzer"}
	rolled := false
	add := func(o Operation) { l.Ops = append(l.Ops, o) }
	fault := func() {
		name := pick(who())
		if r.IntN(2) == 0 {
			name = pick(servers)
		}
		switch r.IntN(15) {
		case 0:
			add(Operation{Do: Stall, Who: name, Ms: 100 << r.IntN(7)})
		case 1, 2, 3, 4:
			o := Operation{Do: Crash, Who: name, What: pick([]string{"before", "after"}), N: 1 + r.IntN(12)}
			if r.IntN(2) == 0 {
				o.What, o.N = o.What+" "+pick(written(name)), 1+r.IntN(3)
			}
			add(o)
		case 5:
			what := "same"
			if !rolled && r.IntN(2) == 0 {
				rolled = true
				what = pick([]string{"older", "lost"})
			}
			add(Operation{Do: Restart, Who: name, What: what, N: r.IntN(3)})
		case 6:
			add(Operation{Do: Drop, Who: name, What: pick(requests(name)), N: 1 + r.IntN(3)})
		case 7:
			add(Operation{Do: LoseAnswer, Who: name, What: pick(requests(name)), N: 1 + r.IntN(3)})
		case 8:
			add(Operation{Do: Double, Who: name, What: pick(requests(name)), N: 1 + r.IntN(3)})
		case 9:
			add(Operation{Do: Delay, Who: name, What: pick(requests(name)), N: 1 + r.IntN(3), Ms: 50 << r.IntN(8)})
		case 10:
			add(Operation{Do: Reorder, Ms: 200 << r.IntN(5)})
		case 11:
			add(Operation{Do: Partition, Who: name, Ms: 200 << r.IntN(6)})
		case 12:
			switch r.IntN(3) {
			case 0:
				add(Operation{Do: Rotate, Who: pick(servers)})
			default:
				add(Operation{Do: Jump, Who: name, Ms: 400 << r.IntN(8)})
			}
		case 13:
			add(Operation{Do: Fill, Who: pick(append([]string{"broker", "broker"}, who()...)), Ms: 100 << r.IntN(6)})
		case 14:
			add(Operation{Do: PowerLoss, N: r.IntN(8)})
		}
	}
	// late holds reports back until after the deadline, and what leaves of the release too, so that they meet.
	late := func() {
		add(Operation{Do: Delay, Who: hostName(r.IntN(hosts)), What: "PublishReport", N: 3, Ms: 7500 + r.IntN(3500)})
		add(Operation{Do: Delay, Who: "shuffler",
			What: pick([]string{"PublishChunk", "AppendAuditAfter", "PublishManifest"}),
			N:    1 + r.IntN(3), Ms: 800 << r.IntN(3)})
		if r.IntN(2) == 0 {
			add(Operation{Do: Crash, Who: "shuffler", What: pick([]string{"before log", "after log", "after store"}),
				N: 1 + r.IntN(2)})
		}
	}
	for range 1 + r.IntN(3) { // cohorts, if nothing goes wrong
		if r.IntN(4) == 0 {
			late()
		}
		for n := range hosts {
			if r.IntN(4) == 0 {
				fault()
			}
			add(Operation{Do: Decide, Who: hostName(n), N: 1 + r.IntN(3)})
			if r.IntN(3) == 0 {
				add(Operation{Do: Copy, Who: pick(who())})
			}
			if r.IntN(4) == 0 {
				fault()
			}
			if r.IntN(4) > 0 {
				add(Operation{Do: Reward, Who: hostName(n)})
			}
		}
		for range r.IntN(4) {
			fault()
			if r.IntN(2) == 0 {
				add(Operation{Do: Wait, Ms: 10 << r.IntN(8)})
			}
		}
		add(Operation{Do: Wait, Ms: 500 << r.IntN(6)})
	}
	l.Paper = !l.Panel && r.IntN(3) == 0
	l.Program = !l.Panel && !l.Paper && l.Seed%2 == 0
	l.ServerNoise = (l.Channel == plan.Shuffle || l.Channel == plan.Shares) && r.IntN(4) == 0
	return l
}
