package shuffler

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/audit/retained"
	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel/shuffle"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	reporting "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/registry"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// retain has the scene's shuffler retain what leaves for an hour, and returns the auditor and its key.
func (s *scene) retain() (*bus.Conn, *seal.HPKEKey) {
	s.t.Helper()
	key := testbed.NewKey(s.t)
	s.config.Retain, s.config.Auditor = time.Hour, key.Public()
	s.config.Channels = []plan.Channel{plan.Shuffle, plan.Local}
	return s.Connect(bus.Auditor), key
}

// retained is what the broker has retained of the first round.
func (s *scene) retained(auditor *bus.Conn) (all []bus.Retained) {
	s.t.Helper()
	s.must(auditor.Retained.ReadRetained(s.Context(), 1, 0, func(r bus.Retained) error {
		all = append(all, r)
		return nil
	}))
	return all
}

// audited opens what is retained of the first round as an audit does, holds it against the manifest, and returns the
// chunks.
func (s *scene) audited(all []bus.Retained, m *wire.Manifest, keys ...*seal.HPKEKey) (chunks [][]byte) {
	s.t.Helper()
	digests := make([][32]byte, m.Chunks)
	for _, one := range all {
		chunk, err := retained.Open(one.Sealed, keys, seal.RetainedContext{
			Deployment: testbed.Deployment, Epoch: 1, Index: one.Index, Announcement: s.digest,
		})
		s.must(err)
		if one.Index >= m.Chunks || digests[one.Index] != [32]byte{} {
			s.t.Fatalf("chunk %d of %d is retained, or twice", one.Index, m.Chunks)
		}
		chunks, digests[one.Index] = append(chunks, chunk), wire.ChunkDigest(chunk)
	}
	if all := wire.ChunksDigest(digests); !bytes.Equal(all[:], m.ChunksDigest) {
		s.t.Errorf("the chunks retained are not those of the manifest")
	}
	return chunks
}

// localRound announces a round of the channel local for so many people.
func (s *scene) localRound(people int) *plan.Announcement {
	s.t.Helper()
	learner, err := learner.New(testbed.Learner(glm.Practical, people))
	s.must(err)
	step := learner.Next()
	step.Cohort = people
	terms := testbed.Terms()
	terms.Channel = plan.Local
	a := s.Draw(step, terms, 1, nil)
	a.Timing.Grace = 10 * time.Minute
	return a
}

// envelope makes the sealed report of a device with zero vectors, in a channel whose payload is an envelope.
func (s *scene) envelope(device uint32) []byte {
	s.t.Helper()
	d, err := registry.NewDevice(s.opened, s.digest)
	s.must(err)
	var vectors [][]float64
	for _, e := range s.opened.Encodings {
		vectors = append(vectors, make([]float64, len(e.Coordinates)))
	}
	by := reporting.Sender{Identity: s.host, Credential: s.credential, Number: device}
	payload, err := d.Append(nil, by, vectors, testbed.Source())
	s.must(err)
	return s.Seal(wire.Report{
		Announcement: s.digest, Epoch: s.opened.Epoch, Round: s.opened.Round, Slot: device, Device: device,
		Payload: payload,
	}, s.host)
}

// What is forwarded is retained where that is asked for, every chunk with the time after which it is gone, and nothing
// of it in the clear. The auditor opens it and finds what the manifest names; no one else at the broker can read it.
func TestWhatIsForwardedIsRetained(t *testing.T) {
	t.Parallel()
	for _, c := range []plan.Channel{plan.Shuffle, plan.Local} {
		t.Run(string(c), func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			auditor, key := s.retain()
			s.start()
			if c == plan.Local {
				s.open(s.localRound(12))
			} else {
				s.open(s.announcement())
			}
			s.enrol(12)
			for device := range uint32(12) {
				if c == plan.Local {
					s.send(s.envelope(device))
				} else {
					s.send(s.report(device))
				}
			}
			m := s.manifest(1, 0)
			all, left := s.retained(auditor), s.left(1, 0)
			if !slices.EqualFunc(s.audited(all, m, key), left, bytes.Equal) {
				t.Error("what is retained is not what left")
			}
			if c == plan.Shuffle && len(all) < 2 {
				t.Errorf("%d chunks show little", len(all))
			}
			size := registry.MessageSize(s.opened)
			for _, r := range all {
				if r.Window != time.Hour {
					t.Errorf("chunk %d is retained for %s", r.Index, r.Window)
				}
				for part := range slices.Chunk(bits(t, left), size) {
					if bytes.Contains(r.Sealed, part[:seal.EncapsulatedSize]) ||
						bytes.Contains(r.Sealed, part[size-16:]) {
						t.Fatalf("chunk %d is retained in the clear", r.Index)
					}
				}
			}
			for _, spy := range []*bus.Conn{s.analyzer, s.devices, s.broker} {
				err := spy.Retained.ReadRetained(s.Context(), 1, 0, func(bus.Retained) error { return nil })
				if !errors.Is(err, bus.ErrForbidden) {
					t.Errorf("the %s reads it: %v", spy.Role(), err)
				}
			}
		})
	}
}

// Without the setting nothing is retained, also where the bundle names an auditor.
func TestNothingIsRetainedUnasked(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	auditor, _ := s.retain()
	s.config.Retain = 0
	s.start()
	s.open(s.announcement())
	s.enrol(12)
	s.sendAll(12)
	s.manifest(1, 0)
	s.finished()
	if all := s.retained(auditor); len(all) > 0 {
		t.Errorf("%d chunks are retained", len(all))
	}
}

// fullBroker has no room for retained chunks, from the second of a round on, until it is told otherwise.
type fullBroker struct {
	Broker
	roomy   atomic.Bool
	refused atomic.Int32
}

func (b *fullBroker) PublishRetained(ctx context.Context, epoch uint64, round, index uint32, sealed []byte,
	window time.Duration) error {
	if index > 0 && !b.roomy.Load() {
		b.refused.Add(1)
		return bus.ErrFull
	}
	return b.Broker.PublishRetained(ctx, epoch, round, index, sealed, window)
}

// The manifest names only what is retained already: neither the audit log nor the analyzer gets it before. Once there
// is room the release goes on.
func TestNoManifestLeavesBeforeAllIsRetained(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	auditor, key := s.retain()
	full := &fullBroker{Broker: Over(s.broker.Streams)}
	s.prepare = func(sh *Shuffler) { sh.channels[plan.Shuffle].(*shuffle.Mixing).Retain.Store = full }
	s.start()
	s.open(s.announcement())
	s.enrol(12)
	s.sendAll(12)
	s.eventually("tried twice", func() bool { return full.refused.Load() >= 2 })
	if _, err := s.analyzer.Mixed.ReadManifest(s.Context(), 1, 0); !errors.Is(err, bus.ErrGone) || len(s.logged()) > 0 {
		t.Errorf("%d manifests are logged; the one that leaves: %v", len(s.logged()), err)
	}
	s.mu.Lock()
	unmet := s.unmet[releaseCondition]
	s.mu.Unlock()
	if !errors.Is(unmet, bus.ErrFull) || !strings.Contains(unmet.Error(), "cannot be retained") {
		t.Errorf("readiness says %v", unmet)
	}
	before := s.retained(auditor)
	full.roomy.Store(true)
	all := s.retainedAfter(auditor, key)
	if len(before) != 1 || !bytes.Equal(before[0].Sealed, all[0].Sealed) {
		t.Errorf("%d chunks were retained before there was room, and the first was stored anew", len(before))
	}
}

// retainedAfter waits for the manifest and returns what is retained, held against it.
func (s *scene) retainedAfter(auditor *bus.Conn, key *seal.HPKEKey) []bus.Retained {
	s.t.Helper()
	m := s.manifest(1, 0)
	all := s.retained(auditor)
	s.audited(all, m, key)
	return all
}

// A crash while a release is being retained: the next process retains the rest, and what is retained occurs once.
func TestACrashRetainsOnce(t *testing.T) {
	t.Parallel()
	for _, step := range []string{stepRetained, stepAudited, stepManifest} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			auditor, key := s.retain()
			s.crashAt(step)
			s.start()
			s.open(s.announcement())
			s.enrol(12)
			s.sendAll(12)
			s.eventually("crashed", s.crashed)
			if err := s.stop(); !errors.Is(err, errCrash) {
				t.Fatalf("stopped by %v", err)
			}
			before := s.retained(auditor)
			if want := step == stepRetained; len(before) == 0 || (len(before) == 1) != want {
				t.Errorf("%d chunks are retained", len(before))
			}
			s.crash = nil
			s.config.Source = testbed.Source()
			s.start()
			all := s.retainedAfter(auditor, key)
			s.finished()
			for i, r := range before {
				if !bytes.Equal(r.Sealed, all[i].Sealed) {
					t.Errorf("chunk %d was retained anew", i)
				}
			}
		})
	}
}

// A shuffler that cannot retain what it is told to does not start, and says why and what to do.
func TestRetentionThatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.retain()
	for name, c := range map[string]struct {
		change func(*testConfig)
		want   string
	}{
		"central":       {func(c *testConfig) { c.Channels = []plan.Channel{plan.Shuffle, plan.Central} }, "central"},
		"shares":        {func(c *testConfig) { c.Channels = []plan.Channel{plan.Shares} }, "shares"},
		"every channel": {func(c *testConfig) { c.Channels = plan.Channels() }, "channels: shuffle, local"},
		"no auditor":    {func(c *testConfig) { c.Auditor = nil }, "the auditor's key"},
		"its own key":   {func(c *testConfig) { c.Auditor = c.Keys[0].Public() }, "one of the shuffler's own"},
		"a weak key":    {func(c *testConfig) { c.Auditor = make([]byte, 32) }, "auditor's key"},
		"too short":     {func(c *testConfig) { c.Retain = time.Millisecond }, "must be 0, or from 1s to 8784h0m0s"},
		"too long":      {func(c *testConfig) { c.Retain = bus.MaxRetain + 1 }, "must be 0, or from 1s to 8784h0m0s"},
		"negative":      {func(c *testConfig) { c.Retain = -time.Hour }, "must be 0, or from 1s to 8784h0m0s"},
	} {
		config := s.configured()
		c.change(&config)
		sh, err := config.open()
		if err == nil {
			s.must(sh.Close())
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A broker that was provisioned before there was retention ends the start, and not the first release.
func TestABrokerThatCannotRetainEndsTheStart(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.retain()
	config := s.configured()
	config.Bus = oldBroker{config.Bus}
	sh, err := config.open()
	s.must(err)
	if err := sh.Run(s.Context()); !errors.Is(err, bus.ErrUnprovisioned) {
		t.Errorf("ended by %v", err)
	}
}

// oldBroker has no stream for what is retained.
type oldBroker struct{ Broker }

func (oldBroker) CanRetain(context.Context) error { return bus.ErrUnprovisioned }

// The configuration of the process says the same before it starts.
func TestRetentionIsChecked(t *testing.T) {
	t.Parallel()
	keys := filepath.Join(t.TempDir(), "keys")
	if err := keyring.Generate(keys, keyring.Options{Name: "clinic"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ keys, retain, channels, want string }{
		{keys, "720h", "shuffle,local", ""},
		{keys, "0s", "shuffle,central", ""},
		{keys, "720h", "shuffle,central", "audit.retain = 720h0m0s (--audit-retain) cannot be used with channels"},
		{keys, "720h", "", "nothing of the channel shares may be retained"},
		{keys, "9000h", "shuffle", "must be 0, or from 1s to 8784h0m0s"},
	} {
		args := []string{"--keys", c.keys, "--state", t.TempDir(), "--check-config", "--audit-retain=" + c.retain}
		if c.channels != "" {
			args = append(args, "--channels="+c.channels)
		}
		command := role.Command(Role())
		command.SetArgs(args)
		command.SetOut(io.Discard)
		command.SetErr(io.Discard)
		err := command.Execute()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %s: %v", c.retain, c.channels, err)
		}
	}
}

// The process does what its settings say: told to retain, at a broker without a stream for it, it ends before it begins
// and says what to do.
func TestTheProcessRetainsAsItIsTold(t *testing.T) {
	t.Parallel()
	keys := filepath.Join(t.TempDir(), "keys")
	if err := keyring.Generate(keys, keyring.Options{Name: "clinic"}); err != nil {
		t.Fatal(err)
	}
	users, err := keyring.LoadUsers(keys)
	if err != nil {
		t.Fatal(err)
	}
	o := broker.Options{Dir: t.TempDir(), MaxStore: 1 << 40, Users: map[bus.Role][]string{}}
	for who, public := range users {
		o.Users[bus.Role(who)] = public
	}
	server, err := broker.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	command := role.Command(Role())
	command.SetArgs([]string{"--keys", keys, "--state", t.TempDir(), "--broker-url", server.URL(), "--ops-listen",
		"127.0.0.1:0", "--audit-retain=24h", "--channels=shuffle"})
	command.SetOut(io.Discard)
	command.SetErr(io.Discard)
	ctx, cancel := context.WithTimeout(t.Context(), testbed.Patience)
	defer cancel()
	if err := command.ExecuteContext(ctx); !errors.Is(err, bus.ErrUnprovisioned) ||
		!strings.Contains(err.Error(), "run riffle broker provision again") {
		t.Errorf("ended by %v", err)
	}
}
