package world

// Row is the result of one mode, over seeds. Its JSON form is a stable interface.
type Row struct {
	Mode  string `json:"mode"`
	Kind  Kind   `json:"kind"`
	KMax  int    `json:"k_max"` // most decisions of a report
	R     int    `json:"r"`     // most reports of a person, as asked for; 0: no limit
	Seeds int    `json:"seeds"`
	// Records is R, or the number of epochs if that is smaller.
	Records int `json:"records"`
	Epochs  int `json:"epochs"` // that were learned from, in the first seed
	Panel   int `json:"panel"`  // people of a cohort; 0: cohorts grow
	// Epsilon is the guarantee of a person for all of the deployment's life, at Delta; null: none.
	Epsilon *float64 `json:"epsilon"`
	Delta   float64  `json:"delta,omitempty"`
	// Regret is summed over all decisions: the mean over seeds, and its standard error.
	Regret   float64 `json:"regret"`
	RegretSE float64 `json:"regret_se"`
	// Reward is the mean expected reward of a decision, and LastWeek that of the last seven days.
	Reward     float64   `json:"mean_reward"`
	RewardSE   float64   `json:"mean_reward_se"`
	LastWeek   float64   `json:"last_week"`
	LastWeekSE float64   `json:"last_week_se"`
	ByDay      []float64 `json:"mean_reward_by_day"`
	RegretDay  []float64 `json:"regret_by_day"` // of a decision
	Kept       float64   `json:"kept"`          // share of the cohorts' decisions that reports had room for
	// Learned is after how many days the regret of a day first came down to its rate before the change, and Returned
	// after how many days from the change it was there again; null: never, or nothing changes at once.
	Learned  *int `json:"days_to_learn,omitempty"`
	Returned *int `json:"days_to_return,omitempty"`
	// Of a control group, per epoch of the first seed: the lift of the policy over the default arm with its 95 %
	// interval, and the truth. Held is the share of all seeds' epochs whose interval holds the truth.
	LiftDay  []int     `json:"lift_day,omitempty"` // on which the epoch began
	Lift     []float64 `json:"lift,omitempty"`
	LiftLow  []float64 `json:"lift_low,omitempty"`
	LiftHigh []float64 `json:"lift_high,omitempty"`
	LiftTrue []float64 `json:"lift_true,omitempty"`
	Held     *float64  `json:"lift_held,omitempty"`
}
