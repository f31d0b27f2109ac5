package composetest

import (
	"errors"
	"time"
)

// fault is one way in which a day is bad.
type fault struct {
	name string
	// ends is whom it concerns: "actor", the role whose step it is; "broker"; or a role by its name.
	ends    string
	lasts   time.Duration
	drop    bool // the message at which it comes is lost, with its connection
	twice   bool // the message at which it comes is carried twice
	deaf    bool // whom it concerns is cut off from the broker, and must say so; all are where that is the broker
	late    bool // some reports come when the release is committed, and are not in it
	alone   bool // it is in no combination
	older   bool // a role goes on with an older state
	mayEnd  bool // what was durable is gone: the deployment may stop for good if it says why
	on      func(point) bool
	prepare func(*faulty, string) // before people come
	begin   func(*faulty, string)
	end     func(*faulty, string)
}

// target is the service or link that a fault is done to.
func (f fault) target(p point) string {
	switch f.ends {
	case "actor":
		return p.role
	case "broker":
		return "nats"
	}
	return f.ends
}

// slowBy is what a slow link holds each message up by, in each direction, one after another.
const slowBy = 200 * time.Millisecond

func others(role string) func(point) bool { return func(p point) bool { return p.role != role } }

func afterSteps(p point) bool {
	return p.After && p.Step != "commit" && p.Step != "count" && p.Step != "manifest"
}

// whileLeaving are the points between the commit of a release and its manifest.
func whileLeaving(p point) bool {
	return p.Step == "commit" && p.After || p.Step == "chunk" || p.Step == "manifest" && !p.After
}

// whileComing are the points at which a shuffler whose disk takes no write has reports to admit.
func whileComing(p point) bool { return p.Step == "report" }

func setLink(state string, delay time.Duration) func(*faulty, string) {
	return func(x *faulty, link string) { x.tap.link(link, state, delay) }
}

var (
	cut    = setLink("cut", 0)
	silent = setLink("silent", 0)
	slow   = setLink("open", slowBy)
	mended = setLink("open", 0)
)

func nothing(*faulty, string)               {}
func killRole(x *faulty, service string)    { x.must("docker", "kill", x.id(service)) }
func startRole(x *faulty, service string)   { x.start(service) }
func pauseRole(x *faulty, service string)   { x.must("docker", "pause", x.id(service)) }
func unpauseRole(x *faulty, service string) { x.must("docker", "unpause", x.id(service)) }
func fillDisk(x *faulty, service string)    { x.hold("fill", service) }
func freeDisk(x *faulty, service string)    { x.hold("free", service) }

// denyWrites has every write of a role fail at once. A full disk does not: a journal has room set aside. A role that
// ends for that is started again by Docker, and its next process may write.
func denyWrites(x *faulty, service string) { x.setWrites("deny", service) }

// allowWrites is for a role that has not ended.
func allowWrites(x *faulty, service string) { x.setWrites("allow", service) }

// torn is a power cut of a broker that syncs every write before it acknowledges it: what it was writing has its length
// on the disk and not its bytes.
func torn(x *faulty, service string) {
	killRole(x, service)
	x.hold("tear", service)
}

// keepOldState takes a copy of a service's state while the service stands still.
func keepOldState(x *faulty, service string) {
	pauseRole(x, service)
	x.keep(service)
	unpauseRole(x, service)
}

// setBack kills a service and puts the copy in the place of its state.
func setBack(x *faulty, service string) {
	killRole(x, service)
	x.setBack(service)
}

// lateOnes is how many of host1's reports come late, if each host has half of the people: fewer than a release may
// lack.
const lateOnes = 3

// detain cuts host1 off before its last reports.
func detain(x *faulty, _ string) {
	s := tapStop{ID: x.late(), Link: "host1", Subject: "riffle.v1.report.", Nth: faultCohort/2 - lateOnes + 1}
	x.tap.arm(s)
	x.detained = make(chan error, 1)
	go func() { // nothing here may panic: it is not the case's goroutine
		err := x.tap.wait(x.ctx, s.ID, faultPatience)
		if err == nil {
			err = errors.Join(x.tap.ask("/link", cutOff("host1")), x.tap.ask("/release?drop=1&id="+s.ID, nil))
		}
		x.detained <- err
	}()
}

// admitted is how long a shuffler gets for the reports that have come to the broker.
const admitted = 2 * time.Second

// releaseAndKill lets the reports through that detain kept, and kills a role once they have come.
func releaseAndKill(x *faulty, service string) {
	if err := <-x.detained; err != nil {
		x.c.violation("host1 was not cut off before its last reports: %v", err)
	}
	mended(x, "host1")
	if err := x.handIn(faultPatience); err != nil {
		x.c.violation("the late reports: %v", err)
	}
	time.Sleep(admitted)
	killRole(x, service)
}

// lost is a power cut that takes all writes since the copy with it: what a broker loses that does not sync.
func lost(x *faulty, service string) {
	setBack(x, service)
	x.newer = nil // gone for good
}

var faults = []fault{
	{name: "the role's link is cut", ends: "actor", lasts: lasts, deaf: true, drop: true, begin: cut, end: mended},
	{name: "host1's link is cut", ends: "host1", lasts: lasts, deaf: true, on: others("host1"), begin: cut,
		end: mended},
	{name: "the shuffler's link is cut", ends: "shuffler", lasts: lasts, deaf: true, on: others("shuffler"),
		begin: cut, end: mended},
	{name: "the analyzer's link is cut", ends: "analyzer", lasts: lasts, deaf: true, on: others("analyzer"),
		begin: cut, end: mended},
	{name: "the role's link is silent", ends: "actor", lasts: lasts, deaf: true, begin: silent, end: mended},
	{name: "the role's link is slow", ends: "actor", lasts: lasts, begin: slow, end: mended},
	{name: "the role is killed", ends: "actor", lasts: off, drop: true, begin: killRole, end: startRole},
	{name: "the message comes twice", ends: "actor", twice: true, begin: nothing, end: nothing},
	{name: "host1's last reports come late, and the role is killed", ends: "actor", lasts: off, drop: true, alone: true,
		late: true, on: whileLeaving, prepare: detain, begin: releaseAndKill, end: startRole},
	{name: "the role is paused", ends: "actor", lasts: lasts, begin: pauseRole, end: unpauseRole},
	{name: "the role's disk is full", ends: "actor", lasts: lasts, begin: fillDisk, end: freeDisk},
	{name: "the shuffler's disk takes no write", ends: "shuffler", lasts: off, on: whileComing, begin: denyWrites,
		end: allowWrites},
	{name: "the role is set back to the epoch's beginning", ends: "actor", lasts: off, drop: true, alone: true,
		older: true, prepare: keepOldState, begin: setBack, end: startRole},
	{name: "the broker is killed", ends: "broker", lasts: off, drop: true, begin: killRole, end: startRole},
	{name: "the broker loses power; it syncs every write", ends: "broker", lasts: off, drop: true, begin: torn,
		end: startRole},
	{name: "the broker is paused", ends: "broker", lasts: lasts, deaf: true, begin: pauseRole, end: unpauseRole},
	{name: "the broker's disk is full", ends: "broker", lasts: lasts, begin: fillDisk, end: freeDisk},
	{name: "the broker loses power, and all writes of the epoch", ends: "broker", lasts: off, drop: true, alone: true,
		mayEnd: true, on: afterSteps, prepare: keepOldState, begin: lost, end: startRole},
}
