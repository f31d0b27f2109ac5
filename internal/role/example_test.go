package role_test

import (
	"context"
	"fmt"

	"github.com/riffle-dp/riffle/internal/config"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/outcome"
)

// mixerConfig is the one documented schema of the role.
type mixerConfig struct {
	Cohort struct {
		Minimum int `key:"minimum" doc:"Fewest reports that are released together; at least 2."`
		Size    int `key:"size" doc:"Slots of a cohort."`
	} `key:"cohort" doc:"Who is mixed with whom."`
}

func (c mixerConfig) Validate() (faults []error) {
	if c.Cohort.Minimum > c.Cohort.Size {
		faults = append(faults, config.Conflict("cohort.minimum", c.Cohort.Minimum, "must be at most", "cohort.size",
			c.Cohort.Size))
	}
	return faults
}

const duplicate outcome.Reason = "duplicate" // a report of this slot was admitted before

func prepare(env *role.Env, _ mixerConfig) (role.Serve, error) {
	reports, err := outcome.New(env.Metrics, env.Name, "report", nil, duplicate)
	if err != nil {
		return nil, err
	}
	env.Account(reports)
	broker := env.Health.Condition("broker")
	return func(ctx context.Context) error {
		broker.Set(nil) // connected
		reports.Received(2)
		reports.Released(1)
		reports.Refused(fmt.Errorf("%w: slot 7", duplicate), 1)
		return reports.Check() // a real role works until ctx is done
	}, nil
}

// A main is os.Exit(role.Main(mixer)).
func ExampleCommand() {
	var defaults mixerConfig
	defaults.Cohort.Minimum, defaults.Cohort.Size = 100, 1000
	mixer := role.Command(role.Role[mixerConfig]{
		Name: "mixer", Short: "mix reports", Defaults: defaults, OpsListen: "127.0.0.1:0", Prepare: prepare,
	})
	mixer.SetArgs([]string{"--check-config"})
	fmt.Println("exit", role.Main(mixer))
	// Output:
	// mixer: the configuration is good
	// exit 0
}
