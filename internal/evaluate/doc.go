// Package evaluate values a policy on a log that another policy made, without playing it: off-policy evaluation. Logs
// are read by internal/population/decisions. The estimates are not private: they are for those who hold the log.
package evaluate
