package main

import (
	"context"
	_ "embed" // for the person
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

//go:embed person.js
var script string

const (
	atOnce = 3   // people at the page
	leave  = 0.2 // share of people who close the page before they tell how it was
	after  = 40  // people at most who come when learning is over
)

// person is somebody whose answers only their own browser learns.
type person struct {
	Name    string             `json:"name"`
	Tired   bool               `json:"tired"`
	Evening bool               `json:"evening"`
	Lot     float64            `json:"lot"` // below Good: the answer is "very much"
	Leaves  bool               `json:"leaves"`
	Good    map[string]float64 `json:"good"` // probability that an exercise does good
}

func newPerson(n int, r *rand.Rand) person {
	p := person{Name: fmt.Sprintf("person %d", n), Tired: r.IntN(2) == 0, Evening: r.IntN(2) == 0, Lot: r.Float64(),
		Leaves: r.Float64() < leave}
	p.Good = map[string]float64{"walk": .5, "stretch": .45, "breathe": .15, "strength": .85}
	if p.Tired {
		p.Good = map[string]float64{"walk": .35, "stretch": .55, "breathe": .9, "strength": .1}
	}
	if p.Evening {
		p.Good["walk"] -= .25
		p.Good["stretch"] += .3
	}
	return p
}

// outcome is what came of one person.
type outcome struct {
	ID      string             `json:"id"`
	Sampled bool               `json:"sampled"`
	Reason  string             `json:"reason"`
	Said    string             `json:"said"`
	each    map[string]float64 // as in the person: that an exercise does good
}

// good is the probability that what was offered does good.
func (o outcome) good() float64 { return o.each[o.ID] }

// crowd has so many people use the page, a cohort after the other, and then some more for whom nothing is learnt.
func crowd(ctx context.Context, url string, people int, say io.Writer) error {
	browser, err := openBrowser(ctx)
	if err != nil {
		return err
	}
	defer browser.close()
	r, came, began := rand.New(rand.NewPCG(1, 2)), 0, time.Now()
	var first float64
	for epoch := uint64(1); ; epoch++ {
		b, err := awaited(ctx, url, epoch)
		if err != nil {
			return err
		}
		if b.Final {
			break
		}
		if came >= people {
			_, err = fmt.Fprintf(say, "%d people came, and learning is not over: it takes --people of them\n", came)
			return err
		}
		all, err := visit(ctx, browser, url, people-came, int(b.Cohort), func() person {
			came++
			return newPerson(came, r)
		})
		if err != nil {
			return err
		}
		tell(say, fmt.Sprintf("policy %d", epoch), all, time.Since(began))
		if epoch == 1 {
			first = mean(all)
		}
	}
	all, err := visit(ctx, browser, url, min(people, after), after, func() person {
		came++
		return newPerson(came, r)
	})
	if err != nil {
		return err
	}
	tell(say, "last policy", all, time.Since(began))
	return summary(say, first, all)
}

// summary holds the last policy's offers against the best and against a drawn lot, by what only the simulation knows.
func summary(say io.Writer, first float64, all []outcome) error {
	var best, lot, gains, squares float64
	n := float64(len(all))
	for _, o := range all {
		even, top := 0.0, 0.0
		for _, p := range o.each {
			even, top = even+p/float64(len(o.each)), max(top, p)
		}
		gain := o.good() - even
		best, lot, gains, squares = best+top/n, lot+even/n, gains+gain/n, squares+gain*gain/n
	}
	half := 1.96 * math.Sqrt(max(0, squares-gains*gains)/n)
	_, err := fmt.Fprintf(say, "by the probabilities that this simulation gave its people: %.2f of the first policy's "+
		"offers do good, and %.2f of the last one's (at random %.2f, at best %.2f);\nthat is %+.2f ± %.2f over chance "+
		"for the last %d people (95%% interval)\n", first, mean(all), lot, best, gains, half, len(all))
	return err
}

// visit has people come until so many of them are sampled, or so many came.
func visit(ctx context.Context, b *browser, url string, most, sampled int, next func() person) (all []outcome,
	err error) {
	for most > 0 && sampled > 0 {
		n := min(atOnce, sampled, most)
		some, g := make([]outcome, n), new(errgroup.Group)
		for i := range n {
			p := next()
			g.Go(func() (err error) {
				some[i], err = p.use(ctx, b, url)
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return all, err
		}
		most -= n
		for _, o := range some {
			if all = append(all, o); o.Sampled || o.Reason == "no_place" {
				sampled--
			}
		}
	}
	return all, nil
}

// use is one person at the page, in a window that has a storage of its own and is closed at once.
func (p person) use(ctx context.Context, b *browser, url string) (o outcome, err error) {
	about, err := json.Marshal(p)
	if err != nil {
		return o, err
	}
	said, err := b.run(ctx, url+"/", strings.Replace(script, "PERSON", string(about), 1))
	if err == nil {
		err = json.Unmarshal([]byte(said), &o)
	}
	o.each = p.Good
	return o, err
}

func mean(all []outcome) (m float64) {
	for _, o := range all {
		m += o.good() / float64(len(all))
	}
	return m
}

func tell(say io.Writer, what string, all []outcome, since time.Duration) {
	sampled, why := 0, map[string]int{}
	for _, o := range all {
		if o.Sampled {
			sampled++
		} else {
			why[o.Reason]++
		}
	}
	_, _ = fmt.Fprintf(say, "%s: %d people, %d of them sampled (others: %v); %.2f of their offers do good (%s)\n", what,
		len(all), sampled, why, mean(all), since.Round(time.Second))
}

// awaited is the board once an epoch is announced, or learning is over.
func awaited(ctx context.Context, url string, epoch uint64) (b board, err error) {
	for {
		r, err := get(ctx, url+"/dashboard.json")
		if err == nil {
			err = json.NewDecoder(r.Body).Decode(&b)
			_ = r.Body.Close()
		}
		if err == nil && (b.Final || b.Epochs[len(b.Epochs)-1].Epoch >= epoch) {
			return b, nil
		}
		select {
		case <-ctx.Done():
			return b, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}
