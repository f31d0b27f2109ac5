package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/role/status"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// What the dashboard shows is computed from the signed announcements, which everybody can read, and from the analyzer's
// status, which counts reports.

// exercises are the arms, in the page's order.
var exercises = []feature.Arm{{ID: "walk"}, {ID: "stretch"}, {ID: "breathe"}, {ID: "strength"}}

// situations are all that the schema tells apart.
var situations = []situation{
	{"Fresh, during the day", false, false}, {"Tired, during the day", true, false},
	{"Fresh, in the evening", false, true}, {"Tired, in the evening", true, true},
}

type situation struct {
	name           string
	tired, evening bool
}

func (s situation) values() feature.Values {
	return feature.Values{"tired": s.tired, "evening": s.evening}
}

type (
	board struct {
		Epochs     []boardEpoch     `json:"epochs"`
		Planned    int              `json:"planned"`
		Reports    int              `json:"reports"`
		Cohort     uint32           `json:"cohort"` // people that the open one takes
		Final      bool             `json:"final"`
		Situations []boardSituation `json:"situations"`
		Terms      []boardTerm      `json:"terms"`
		Guarantee  string           `json:"guarantee"`
	}
	boardEpoch struct {
		Epoch uint64  `json:"epoch"`
		Final bool    `json:"final"`
		Good  float64 `json:"good"` // that the policy's choices do, by the latest estimate, over the situations
		Lot   float64 `json:"lot"`  // the same of exercises drawn by lot
	}
	boardSituation struct {
		Name      string          `json:"name"`
		Exercises []boardExercise `json:"exercises"`
	}
	boardExercise struct {
		ID     string  `json:"id"`
		Good   float64 `json:"good"`
		Picked float64 `json:"picked"` // how often
		Best   bool    `json:"best"`
	}
	boardTerm struct {
		Name   string  `json:"name"`
		Weight float64 `json:"weight"`
	}
)

// public reads what is public of the deployment.
type public struct {
	settings
	options
	status string // URL of the analyzer's status
}

func (p public) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, err := p.board(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(b)
}

func (p public) board(ctx context.Context) (b board, err error) {
	chain, signed, err := p.chain(ctx)
	if err != nil {
		return b, err
	}
	if len(chain) == 0 {
		return b, fmt.Errorf("nothing is announced yet")
	}
	last := chain[len(chain)-1]
	fields, err := feature.Parse(schema)
	if err != nil {
		return b, err
	}
	b.Cohort, b.Final = last.Cohort.Size, last.Final
	worth, err := goods(&last.Policy, fields)
	if err != nil {
		return b, err
	}
	for _, a := range chain {
		e := boardEpoch{Epoch: a.Epoch, Final: a.Final}
		for i, s := range situations {
			arms, err := fields.Encode(s.values(), exercises)
			if err != nil {
				return b, err
			}
			picked, err := a.Policy.Probabilities(arms)
			if err != nil {
				return b, err
			}
			of := boardSituation{Name: s.name}
			for j, arm := range exercises {
				e.Good += picked[j] * worth[i][j] / float64(len(situations))
				e.Lot += worth[i][j] / float64(len(situations)*len(exercises))
				best := true
				for _, other := range worth[i] {
					best = best && worth[i][j] >= other
				}
				of.Exercises = append(of.Exercises, boardExercise{arm.ID, worth[i][j], picked[j], best})
			}
			if a == last {
				b.Situations = append(b.Situations, of)
			}
		}
		b.Epochs = append(b.Epochs, e)
	}
	for i, name := range fields.Names() {
		b.Terms = append(b.Terms, boardTerm{name, last.Policy.Theta[i] * fields.Scale()})
	}
	if b.Guarantee, err = p.guarantee(signed[0]); err != nil {
		return b, err
	}
	return b, p.count(ctx, &b)
}

// goods are the estimated answers, by situation and exercise.
func goods(p *glm.Policy, fields *feature.Schema) (out [][]float64, err error) {
	of, err := family.New(p.Family, p.MaxReward)
	if err != nil {
		return nil, err
	}
	for _, s := range situations {
		arms, err := fields.Encode(s.values(), exercises)
		if err != nil {
			return nil, err
		}
		row := make([]float64, len(arms))
		for j, x := range arms {
			z := 0.0
			for k := range x {
				z += x[k] * p.Theta[k]
			}
			row[j] = of.Mean(z)
		}
		out = append(out, row)
	}
	return out, nil
}

// chain are the announcements so far, and their signed bytes.
func (p public) chain(ctx context.Context) (all []*plan.Announcement, signed [][]byte, err error) {
	r, err := get(ctx, p.Ingress+"/v1/announcements?wait=0&after=0.0")
	if err != nil {
		return nil, nil, err
	}
	defer r.Body.Close()
	by := wire.Party{Deployment: name, Key: p.analyzer()}
	err = wire.ReadFrames(r.Body, func(one []byte) error {
		a, _, err := wire.Open[plan.Announcement](one, by)
		all, signed = append(all, a), append(signed, one)
		return err
	})
	return all, signed, err
}

func (p public) analyzer() []byte {
	var of struct{ Analyzer keyring.Key }
	_ = json.Unmarshal(p.Bundle, &of) // keyring wrote it
	return of.Analyzer
}

// guarantee is what a device of the page computes of the plan.
func (p public) guarantee(first []byte) (string, error) {
	own, err := seal.GenerateIdentity()
	if err != nil {
		return "", err
	}
	core, err := device.New(device.Config{Deployment: name, Analyzer: p.analyzer(), Identity: own, Limits: p.limits()})
	if err != nil {
		return "", err
	}
	a, err := core.Judge(first, 1, 0)
	if err != nil {
		return "", err
	}
	return core.Promise(a).Guarantee, nil
}

// count adds what the analyzer counts.
func (p public) count(ctx context.Context, b *board) error {
	r, err := get(ctx, p.status)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	var s status.Snapshot
	if err := json.NewDecoder(r.Body).Decode(&s); err != nil {
		return err
	}
	b.Planned = max(s.Epochs, len(b.Epochs))
	for _, r := range s.Releases {
		b.Reports += r.Reports
	}
	return nil
}

func get(ctx context.Context, url string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	r, err := http.DefaultClient.Do(request)
	if err == nil && r.StatusCode != http.StatusOK {
		_ = r.Body.Close()
		return nil, fmt.Errorf("%s answers %s", url, r.Status)
	}
	return r, err
}
