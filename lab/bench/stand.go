package bench

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/internal/drive/load"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/registry"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// standName is the deployment's name on a stand: kept reports are bound to it.
const standName = "bench"

// standHost is the one host of a stand. Its devices are played by this process, at the broker's side of a randomizer.
const standHost = "host1"

// stand is a deployment for one cohort whose reports this process makes: it enrols devices and sends what they send,
// without the people and without waiting for their rewards.
type stand struct {
	Setup
	folder     string
	workers    map[string]int
	users, dim int
	channel    plan.Channel
	junk       bool          // this process plays the analyzer too
	keep       *kept         // payloads of this announcement, and its keys; nil: they are junk
	environ    []string      // of the processes
	silence    time.Duration // of the shuffler that ends a release; 0: longSilence

	c      *cluster.Cluster
	host   *keyring.HostKeys
	server *keyring.ServerKeys // the analyzer's
	conns  map[bus.Role]*bus.Conn

	announced  *plan.Announcement
	digest     [32]byte
	device     channel.Device
	slots      []uint32 // by device
	commitment []byte
	marks      marks
}

// kept are payloads that were made once, with the keys of their deployment.
type kept struct {
	keys       string // folder
	digest     [32]byte
	commitment []byte
	payloads   [][]byte
	ones       [][]uint64 // the first deployment's counts, by release
}

// mark is a moment of a run.
type mark struct {
	at   time.Time
	used map[string]cluster.Usage // of processes that run; missing: not known
}

// marks are a run's moments, by name.
type marks map[string]mark

// The moments.
const (
	markOpen     = "open"     // the cohort takes people in
	markEnrolled = "enrolled" // all of them have a slot
	markSent     = "sent"     // all reports are at the broker
	markAdmitted = "admitted" // the shuffler has acknowledged them all
	markLeft     = "left"     // the manifest is at the broker
	markCounted  = "counted"
)

// wall is the time between two moments, in seconds.
func (m marks) wall(from, to string) float64 { return m[to].at.Sub(m[from].at).Seconds() }

// cpu is the processor time of a process between two moments, in seconds; 0 where it is not known.
func (m marks) cpu(process, from, to string) float64 {
	return max(0, (m[to].used[process].CPU - m[from].used[process].CPU).Seconds())
}

func (s *stand) mark(name string) {
	used := map[string]cluster.Usage{}
	for _, p := range append(s.c.Names(), cluster.Broker) {
		if u, ok := s.c.Running(p); ok {
			used[p] = u
		}
	}
	s.marks[name] = mark{time.Now(), used}
}

// start runs the deployment until it takes people in.
func (s *stand) start(ctx context.Context) (err error) {
	people, err := population.Synthetic(population.SyntheticOptions{Users: s.users, Dim: s.dim, Seed: 1})
	if err != nil {
		return err
	}
	own := load.Own{Trust: s.channel, Epsilon: plan.DefaultEpsilon, Delta: plan.DefaultDelta}
	o := cluster.Options{
		Dir: s.folder, Name: standName, Executable: s.Executable, Hosts: []string{standHost}, Devices: uint32(s.users),
		Idle: true, Analyzer: own.Flags(people.Info()), Sync: s.Sync, Environ: s.environ, Workers: s.workers,
	}
	if s.junk {
		o.Without = []string{cluster.Analyzer}
	}
	if s.keep != nil {
		o.Keys = s.keep.keys
	}
	s.marks, s.conns = marks{}, map[bus.Role]*bus.Conn{}
	if s.c, err = cluster.Start(ctx, o); err != nil {
		return err
	}
	if s.host, err = keyring.LoadRandomizer(s.c.Keys(), standHost); err != nil {
		return err
	}
	if s.server, err = keyring.LoadAnalyzer(s.c.Keys()); err != nil {
		return err
	}
	shuffler, err := keyring.LoadShuffler(s.c.Keys())
	if err != nil {
		return err
	}
	auditor, err := keyring.LoadSeed(s.c.Keys(), keyring.Auditor)
	if err != nil {
		return err
	}
	for role, seed := range map[bus.Role][]byte{
		bus.Randomizer: s.host.Seed, bus.Analyzer: s.server.Seed, bus.Shuffler: shuffler.Seed, bus.Auditor: auditor,
	} {
		conn, err := bus.Connect(ctx, bus.Options{URL: s.c.URL(), Role: role, Seed: seed, Name: "riffle-bench"})
		if err != nil {
			return err
		}
		s.conns[role] = conn
	}
	if s.junk {
		err = s.announce(ctx)
	} else {
		err = s.hear(ctx)
	}
	if err != nil {
		return err
	}
	if s.device, err = registry.NewDevice(s.announced, s.digest); err != nil {
		return err
	}
	s.mark(markOpen)
	return nil
}

// stop ends the deployment and removes what it left.
func (s *stand) stop() {
	for _, conn := range s.conns {
		conn.Close()
	}
	if s.c != nil {
		s.c.Stop()
	}
	_ = os.RemoveAll(s.folder) // a temporary folder
}

// announce plays the analyzer: it announces one epoch of the default plan.
func (s *stand) announce(ctx context.Context) error {
	_, a, err := shapeOf(s.channel, s.dim, s.users)
	if err != nil {
		return err
	}
	a.Deployment, a.Epoch, a.AnalyzerKey = standName, 1, s.server.HPKE[0].Public()
	a.Timing = plan.Timing{RewardWindow: time.Second, Jitter: time.Second, Grace: 12 * time.Hour,
		RoundWindow: time.Hour}
	signed, digest, err := wire.Sign(a, s.server.Identity)
	if err != nil {
		return err
	}
	s.announced, s.digest = a, digest
	analyzer := s.conns[bus.Analyzer]
	if err := analyzer.Audit.AppendAudit(ctx, wire.KindAnnouncement, signed); err != nil {
		return err
	}
	return analyzer.Announcements.PutAnnouncement(ctx, a.Epoch, a.Round, signed)
}

// hear waits for the analyzer's first announcement.
func (s *stand) hear(ctx context.Context) error {
	heard := errors.New("heard")
	err := s.conns[bus.Randomizer].Announcements.WatchAnnouncements(ctx, func(b bus.Announcement) error {
		a, digest, err := wire.OpenAnnouncement(b.Payload, b.Epoch, b.Round, s.host.Bundle.AnalyzerParty())
		if err != nil {
			return err
		}
		s.announced, s.digest = a, digest
		return heard
	})
	if !errors.Is(err, heard) {
		return err
	}
	return nil
}

// keySet is the shuffler's newest HPKE key, once there is one.
func (s *stand) keySet(ctx context.Context) ([]byte, error) {
	payload, err := s.conns[bus.Randomizer].Keys.ReadKeys(ctx, bus.Shuffler)
	for errors.Is(err, bus.ErrGone) {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		payload, err = s.conns[bus.Randomizer].Keys.ReadKeys(ctx, bus.Shuffler)
	}
	if err != nil {
		return nil, err
	}
	set, _, err := wire.Open[wire.KeySet](payload, s.host.Bundle.ShufflerParty())
	if err != nil {
		return nil, err
	}
	return set.Keys[0], nil
}

// enrolOne takes a slot for a device.
func (s *stand) enrolOne(ctx context.Context, number uint32) (*wire.EnrolReply, error) {
	request, _, err := wire.Sign(&wire.EnrolRequest{
		Deployment: standName, Epoch: s.announced.Epoch, Announcement: s.digest[:], Device: number,
		Credential: s.host.Credential, Nonces: []uint32{seal.Nonce()},
	}, s.host.Identity)
	if err != nil {
		return nil, err
	}
	key, err := s.keySet(ctx)
	if err != nil {
		return nil, err
	}
	sealed, err := wire.SealRequest(request, key, standName)
	if err != nil {
		return nil, err
	}
	for {
		answer, err := s.conns[bus.Randomizer].Enrolment.Enrol(ctx, sealed.Sealed)
		if err != nil {
			return nil, err
		}
		reply, err := sealed.Answer(answer, s.host.Bundle.Shuffler)
		switch {
		case err != nil:
			return nil, err
		case reply.Enrolled:
			return reply, nil
		case reply.Refusal == wire.RefusalWrongEpoch: // it has not heard of the announcement yet
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		default:
			return nil, fmt.Errorf("bench: device %d is refused a slot: %s", number, reply.Refusal)
		}
	}
}

// compare holds the counts of a deployment against those of the first one with the same reports.
func (k *kept) compare(counts *wire.Counts) error {
	var ones [][]uint64
	for _, r := range counts.Releases {
		ones = append(ones, r.Ones)
	}
	if len(ones) == 0 || slices.ContainsFunc(ones, func(sums []uint64) bool { return len(sums) == 0 }) {
		return errors.New("bench: a release without sums was counted")
	}
	if k.ones == nil {
		k.ones = ones
		return nil
	}
	if len(ones) != len(k.ones) {
		return fmt.Errorf("bench: %d releases, and %d with the same reports before", len(ones), len(k.ones))
	}
	for i, want := range k.ones {
		if !slices.Equal(ones[i], want) {
			return fmt.Errorf("bench: release %d has other sums than with the same reports before", i)
		}
	}
	return nil
}

// same reports whether the payloads that were kept fit the announcement of this run.
func (k *kept) same(digest [32]byte, commitment []byte) error {
	if k.digest != digest || !bytes.Equal(k.commitment, commitment) {
		return fmt.Errorf("bench: the deployment announced %s, and reports were made for %s",
			hex.EncodeToString(digest[:4]), hex.EncodeToString(k.digest[:4]))
	}
	return nil
}

// folderOf is a fresh folder inside the run's.
func (s Setup) folderOf(what string) (string, error) {
	return os.MkdirTemp(filepath.Clean(s.Dir), what+"-")
}
