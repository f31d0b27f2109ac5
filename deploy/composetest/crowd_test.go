package composetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// crowd plays people's apps against the randomizers' API.
type crowd struct {
	t      *testing.T
	apis   []string
	client http.Client
	pause  time.Duration // of an app between two people
	name   string        // of these people
	size   int           // numbers of an arm
	borne  bool          // calls that fail are counted, under "error", and the next person comes

	mu      sync.Mutex
	people  int                 // who have come so far
	full    uint64              // epoch whose cohort a device was told is full
	asking  int                 // who wait for their decision
	sampled map[uint64]int      // by epoch
	urls    map[uint64][]string // of the decisions of those who were sampled, by epoch
	missed  map[string]int      // decisions that were not sampled, by reason
}

// apps ask at the same time.
const apps = 16

func newCrowd(t *testing.T, apis []string) *crowd {
	return &crowd{t: t, apis: apis, client: http.Client{Timeout: stuck}, name: "person", size: 5,
		sampled: map[uint64]int{}, urls: map[uint64][]string{}, missed: map[string]int{}}
}

// status is what the test reads of a randomizer's status.
type status struct {
	Epoch     uint64
	Cohort    int
	Enrolling bool
	Final     bool
	Pending   int
	Refused   string
}

func (c *crowd) call(ctx context.Context, method, url string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := c.client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err = io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s: %s", method, url, answer.Status, bytes.TrimSpace(text))
	}
	return json.Unmarshal(text, into)
}

// next waits until every randomizer has an epoch after this one, or the last policy.
func (c *crowd) next(ctx context.Context, after uint64) (status, error) {
	for {
		var last status
		ready := 0
		for _, api := range c.apis {
			var s status
			if err := c.call(ctx, http.MethodGet, api+"/v1/status", nil, &s); err == nil &&
				(s.Enrolling && s.Epoch > after || s.Final) {
				ready++
				last = s
			} else if s.Refused != "" {
				return s, fmt.Errorf("the randomizer refuses the plan: %s", s.Refused)
			}
		}
		if ready == len(c.apis) {
			return last, nil
		}
		select {
		case <-ctx.Done():
			return last, fmt.Errorf("no epoch after %d was announced: %w", after, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// reporters counts the people of an epoch who will report.
func (c *crowd) reporters(epoch uint64) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sampled[epoch]
}

// pending counts the reports that devices have promised and the broker does not have.
func (c *crowd) pending(ctx context.Context) (n int) {
	for _, api := range c.apis {
		var s status
		if err := c.call(ctx, http.MethodGet, api+"/v1/status", nil, &s); err != nil {
			c.t.Fatal(err)
		}
		n += s.Pending
	}
	return n
}

// fill brings people until the epoch's cohort is full. atHalf runs meanwhile, once half of it is.
func (c *crowd) fill(ctx context.Context, s status, atHalf func()) error {
	var all, half sync.WaitGroup
	var once sync.Once
	errs := make([]error, apps)
	for i := range apps {
		all.Go(func() {
			for errs[i] == nil && ctx.Err() == nil {
				c.mu.Lock()
				full, taken := c.sampled[s.Epoch] >= s.Cohort ||
					c.full == s.Epoch, c.sampled[s.Epoch]+c.asking >= s.Cohort
				due, person := c.sampled[s.Epoch] >= s.Cohort/2, c.people
				if !taken && !full {
					c.people, c.asking = c.people+1, c.asking+1
				}
				c.mu.Unlock()
				if due && atHalf != nil {
					once.Do(func() { half.Go(atHalf) })
				}
				switch {
				case full:
					return
				case taken: // by those who are asking; one of them may not be sampled
					time.Sleep(10 * time.Millisecond)
				default:
					if err := c.serve(ctx, person); err != nil && !c.borne {
						errs[i] = err
					} else if err != nil {
						c.mu.Lock()
						c.missed["error"]++
						c.mu.Unlock()
						time.Sleep(100 * time.Millisecond)
					}
					time.Sleep(c.pause)
				}
			}
		})
	}
	all.Wait()
	half.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// decision is what the crowd reads of a decision.
type decision struct {
	Arm     int
	Token   string
	Epoch   uint64
	Sampled bool
	Reason  string
}

// who lists where those asked for their decisions who were sampled in an epoch.
func (c *crowd) who(epoch uint64) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.urls[epoch])
}

// decide asks for a decision between arms that belong to a person.
func (c *crowd) decide(ctx context.Context, url string, person int) (d decision, err error) {
	arms, _ := c.arms(person)
	err = c.call(ctx, http.MethodPost, url, map[string]any{"arms": arms}, &d)
	return d, err
}

// arms are two vectors of the unit ball, and what a person's reward is drawn with.
func (c *crowd) arms(person int) (arms [][]float64, src *rand.Rand) {
	src = rand.New(rand.NewPCG(1, uint64(person)))
	arms = make([][]float64, 2)
	for i := range arms {
		for range c.size {
			arms[i] = append(arms[i], (2*src.Float64()-1)/math.Sqrt(float64(c.size)))
		}
	}
	return arms, src
}

// serve is one person's app: a decision between two arms, and its reward. The arms are vectors of the unit ball; which
// one is better depends on the person.
func (c *crowd) serve(ctx context.Context, person int) error {
	arms, src := c.arms(person)
	api := c.apis[person%len(c.apis)]
	url := fmt.Sprintf("%s/v1/devices/%s-%d/decisions", api, c.name, person)
	d, err := c.decide(ctx, url, person)
	c.mu.Lock()
	c.asking--
	if err != nil {
		c.mu.Unlock()
		return err
	}
	if d.Sampled {
		c.sampled[d.Epoch]++
		c.urls[d.Epoch] = append(c.urls[d.Epoch], url)
	} else {
		c.missed[d.Reason]++
		if d.Reason == "cohort_full" {
			c.full = d.Epoch
		}
	}
	c.mu.Unlock()
	if !d.Sampled {
		return nil
	}
	reward := 0.
	if src.Float64() < 1/(1+math.Exp(-3*arms[d.Arm][0])) {
		reward = 1
	}
	return c.call(ctx, http.MethodPost, api+"/v1/rewards", map[string]any{"token": d.Token, "reward": reward},
		&struct{ Accepted bool }{})
}
