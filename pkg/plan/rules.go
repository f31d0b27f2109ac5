package plan

// Rules say when a policy is taken back, by the lift over the control group. They are public, and applied to numbers
// that are public, so that anybody can see that they were kept. The zero value has none.
type Rules struct {
	// Rollback takes the policy before the last one up again when the upper end of the lift's interval over the last
	// Window epochs is below this floor; nil: never.
	Rollback *float64 `json:"rollback,omitempty"`
	// Stop gives everybody the default arm from the next epoch on when it is below this floor; nil: never.
	Stop   *float64 `json:"stop,omitempty"`
	Window int      `json:"window,omitempty"` // epochs, at least 1; 0: 1
}
