package demo

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// stages are the files that the two servers keep of a release of shares, in the order in which they come, and which
// server is killed at the moment when one is seen.
var stages = []struct{ at, file, victim string }{
	{cluster.Shuffler, "shares-header-", cluster.Shuffler},
	{cluster.Analyzer, "shares-taken-", cluster.Analyzer},
	{cluster.Analyzer, "shares-answer-", cluster.Analyzer},
	{cluster.Analyzer, "shares-statement-", cluster.Analyzer},
	{cluster.Shuffler, "shares-sum-", cluster.Shuffler},
	{cluster.Analyzer, "shares-counts-", cluster.Analyzer},
}

// Both servers are killed again and again in the middle of releases of shares, as by a power cut, and started again.
// The run finishes, no report is lost, and no round has two sums.
func TestServersKilledInTheMiddleOfSharesLoseNothing(t *testing.T) {
	long(t)
	const people = 240
	var (
		killed  int
		sums    = map[string][]byte{}
		working sync.WaitGroup
		stop    = make(chan struct{})
	)
	look := func(c *cluster.Cluster, epoch uint64, name, file string) bool {
		found := false
		folder := filepath.Join(filepath.Dir(c.Keys()), name)
		_ = filepath.WalkDir(folder, func(path string, e os.DirEntry, err error) error {
			if err == nil && strings.HasPrefix(e.Name(), fmt.Sprint(file, epoch, "-")) &&
				!strings.HasSuffix(e.Name(), ".part") {
				found = true
				if b, err := os.ReadFile(path); err == nil && file == "shares-sum-" {
					if before, twice := sums[e.Name()]; twice && !bytes.Equal(before, b) {
						t.Errorf("%s changed", e.Name())
					}
					sums[e.Name()] = b
				}
			}
			return nil
		})
		return found
	}
	kill := func(c *cluster.Cluster, epoch uint64) error {
		working.Wait()
		working.Go(func() {
			end := time.Now().Add(20 * time.Second)
			for i := 0; i < len(stages); {
				s := stages[i]
				select {
				case <-stop:
					return
				default:
				}
				if time.Now().After(end) {
					return
				}
				if !look(c, epoch, s.at, s.file) {
					// A later stage that is seen first means that this one was missed.
					for j := i + 1; j < len(stages); j++ {
						if look(c, epoch, stages[j].at, stages[j].file) {
							i = j
							break
						}
					}
					if i < len(stages) && stages[i] == s {
						time.Sleep(200 * time.Microsecond)
						continue
					}
				}
				victim := stages[i].victim
				if err := c.Kill(victim); err == nil || !strings.Contains(err.Error(), "not running") {
					killed++
					t.Logf("epoch %d: %s killed at %s", epoch, victim, stages[i].file)
					if err := c.StartProcess(context.Background(), victim); err != nil {
						t.Error(err)
						return
					}
				}
				if stages[i].file == "shares-sum-" {
					look(c, epoch, stages[i].at, stages[i].file)
				}
				i++
			}
		})
		return nil
	}
	r, _ := run(t, Options{
		Population: synthetic(t, people, 3), Hosts: 2, Trust: plan.Shares, ServerNoise: 1, Disturb: kill,
	})
	close(stop)
	working.Wait()
	whole(t, r, people)
	if killed < 10 {
		t.Errorf("killed %d times in %d epochs", killed, r.Epochs)
	}
	t.Logf("%d kills in %d epochs, %d sums seen", killed, r.Epochs, len(sums))
}
