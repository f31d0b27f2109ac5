package bench

import (
	"context"
	"fmt"
	"slices"

	"github.com/cloudflare/circl/vdaf/prio3/sumvec"

	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/pkg/mechanism"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// Compared is what one person costs with something that people would otherwise take, or with Riffle.
type Compared struct {
	Name       string  `json:"name"`
	Dimension  int     `json:"dimension"`
	Users      int     `json:"users"`
	DeviceCPU  float64 `json:"device_cpu_seconds_per_user"`
	ServersCPU float64 `json:"servers_cpu_seconds_per_user"` // with the broker, where there is one
	Bytes      float64 `json:"bytes_per_user"`               // that a device sends
	// NoiseRatio is the noise variance of a sum over a trusted curator's with the same budget; 0: it adds none.
	NoiseRatio float64 `json:"noise_ratio"`
	Trust      string  `json:"trust"`
	Source     string  `json:"source"`
}

// Published is a figure that others published of a system of their own. None was measured here.
type Published struct {
	System string `json:"system"`
	Figure string `json:"figure"`
	Source string `json:"source"`
}

// trusts says whom a person must trust in each channel.
var trusts = map[plan.Channel]string{
	plan.Shuffle: "the shuffler to be honest and apart from the analyzer",
	plan.Shares:  "one of shuffler and analyzer to be honest",
	plan.Local:   "nobody else",
	plan.Central: "the analyzer",
}

// compare puts the channels beside a minimal two-server sum and a trusted curator, both in this process.
func compare(ctx context.Context, o Options, r *Result) error {
	r.Published = publishedFigures()
	dim := o.Dimensions[0]
	for _, c := range o.Channels {
		rows := map[string]*Row{}
		for _, role := range []string{RoleDevice, RoleBroker, RoleShuffler, RoleAnalyzer} {
			rows[role] = r.find(role, string(c), dim)
		}
		d := rows[RoleDevice]
		if d == nil {
			continue
		}
		ratio, err := noiseRatio(c, dim, d.Users)
		if err != nil {
			return err
		}
		r.Comparison = append(r.Comparison, Compared{
			Name: "Riffle, " + string(c), Dimension: dim, Users: d.Users, DeviceCPU: d.CPUSecondsPerUser,
			ServersCPU: rows[RoleBroker].CPUSecondsPerUser + rows[RoleShuffler].CPUSecondsPerUser +
				rows[RoleAnalyzer].CPUSecondsPerUser,
			Bytes: d.SentPerUser, NoiseRatio: ratio, Trust: trusts[c], Source: FromDevices,
		})
	}
	users := max(leastUsers, int(1000*min(1, o.Measure.Seconds())))
	s, _, err := shapeOf(plan.Shares, dim, users)
	if err != nil {
		return err
	}
	two, err := twoServers(ctx, s, users)
	if err != nil {
		return err
	}
	trusted, err := curator(s, users)
	if err != nil {
		return err
	}
	r.Comparison = append(r.Comparison, *two, *trusted)
	return nil
}

// noiseRatio is the largest noise ratio of a cohort's sums.
func noiseRatio(c plan.Channel, dim, users int) (float64, error) {
	proposal, _, err := planCohort(c, dim, users)
	if err != nil {
		return 0, err
	}
	ratio := 0.0
	for _, rel := range proposal.Details.Releases {
		ratio = max(ratio, rel.VarianceRatio)
	}
	return ratio, nil
}

// prio3Bytes is what a device sends both servers, and what the servers send each other, for one vector.
func prio3Bytes(s shape) (up, between float64) {
	v, err := newPrio3(uint(s.entries), uint(s.width))
	if err != nil {
		return 0, 0
	}
	const element, seed = 16, 32
	p := v.Params()
	// shares, blinds, public part
	up = float64((p.MeasurementLength()+p.ProofLength())*element + 2*seed + 2*seed + 2*seed)
	return up, float64(p.VerifierLength()*element + seed)
}

// twoServers adds up one vector of each person by Prio3SumVec at two servers, which are two variables here: nothing is
// sent, sealed, admitted or logged, and no noise is added.
func twoServers(ctx context.Context, s shape, users int) (*Compared, error) {
	v, err := newPrio3(uint(s.entries), uint(s.width))
	if err != nil {
		return nil, err
	}
	params := v.Params()
	src := entropy.New()
	var key sumvec.VerifyKey
	fill(src, key[:])
	type report struct {
		values []uint64
		nonce  sumvec.Nonce
		drawn  []byte
		public sumvec.PublicShare
		split  []sumvec.InputShare
	}
	want, reports := make([]uint64, s.entries), make([]report, users)
	for i := range reports {
		r := &reports[i]
		r.values, r.drawn = make([]uint64, s.entries), make([]byte, params.RandSize())
		for j := range r.values {
			r.values[j] = src.Uint64() & (1<<s.width - 1)
			want[j] += r.values[j]
		}
		fill(src, r.nonce[:])
		fill(src, r.drawn)
	}
	begin := cluster.Own().CPU
	for i := range reports {
		r := &reports[i]
		if r.public, r.split, err = v.Shard(r.values, &r.nonce, r.drawn); err != nil {
			return nil, err
		}
	}
	shared := cluster.Own().CPU
	sums := [2]sumvec.AggShare{v.AggregateInit(), v.AggregateInit()}
	for i := range reports {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		r := &reports[i]
		var states [2]*sumvec.PrepState
		var prepared []sumvec.PrepShare
		for id := range uint8(2) {
			state, share, err := v.PrepInit(&key, &r.nonce, id, r.public, r.split[id])
			if err != nil {
				return nil, err
			}
			states[id], prepared = state, append(prepared, *share)
		}
		message, err := v.PrepSharesToPrep(prepared)
		if err != nil {
			return nil, err
		}
		for id := range states {
			out, err := v.PrepNext(states[id], message)
			if err != nil {
				return nil, err
			}
			v.AggregateUpdate(&sums[id], out)
		}
	}
	device, servers := shared-begin, cluster.Own().CPU-shared
	got, err := v.Unshard(sums[:], uint(users))
	if err != nil {
		return nil, err
	}
	if !slices.Equal(*got, want) {
		return nil, fmt.Errorf("the two servers' sum is wrong")
	}
	up, _ := prio3Bytes(s)
	return &Compared{
		Name: "Prio3SumVec, two servers", Dimension: s.dim, Users: users, DeviceCPU: device.Seconds() / float64(users),
		ServersCPU: servers.Seconds() / float64(users), Bytes: up,
		Trust: "one of two servers to be honest; no differential privacy", Source: "in this process, without network",
	}, nil
}

func fill(src *entropy.Source, b []byte) {
	for i := range b {
		b[i] = byte(src.Uint64())
	}
}

// curator adds up vectors in the clear and adds Gaussian noise once: the least that anything can cost.
func curator(s shape, users int) (*Compared, error) {
	rho, err := mechanism.Budget(plan.DefaultEpsilon, plan.DefaultDelta)
	if err != nil {
		return nil, err
	}
	noise, err := mechanism.ForRho(mechanism.Sensitivity{Dim: s.entries, L2: 1}, rho)
	if err != nil {
		return nil, err
	}
	vector, sum, src := make([]float64, s.entries), make([]float64, s.entries), entropy.New()
	begin := cluster.Own().CPU
	for range users {
		for j := range sum {
			sum[j] += vector[j]
		}
	}
	noise.Add(sum, src)
	return &Compared{
		Name: "trusted curator", Dimension: s.dim, Users: users,
		ServersCPU: (cluster.Own().CPU - begin).Seconds() / float64(users), Bytes: float64(8 * s.entries),
		NoiseRatio: 1,
		Trust:      "the curator, who has every record", Source: "in this process, without network",
	}, nil
}

// publishedFigures are figures of other systems, as they were published. Of Prochlo and Katzenpost none is here:
// their papers and pages were looked for, and no end-to-end figure was found that could be quoted with its
// conditions.
func publishedFigures() []Published {
	return []Published{{
		System: "Janus (two servers, Prio3)",
		Figure: "its standard load test sends 100 uploads a second (Prio3Count, a 16-core AMD Ryzen 9 7950X); a test " +
			"of its upload counters ran at 5500 a second over two tasks (machine not named)",
		Source: "github.com/divviup/janus, comments on pull requests 2513 and 2684, 2024",
	}, {
		System: "Loopix (mix network, the design of Katzenpost)",
		Figure: "a relay handles upwards of 300 messages a second, with less than 1.5 ms of its own delay (AWS EC2)",
		Source: "Piotrowska, Hayes, Elahi, Meiser and Danezis, The Loopix Anonymity System, 2017, arXiv:1703.00536, " +
			"abstract",
	}}
}
