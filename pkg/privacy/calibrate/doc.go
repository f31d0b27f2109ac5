// Package calibrate finds the encodings with which the releases of one record keep to a privacy budget at the least
// cost: it sets noise and scale until package privacy's certificate of the encodings is at the budget.
//
// Bits answers for devices that send bit messages, and Sums for those that send numbers:
//
//	request.go, sums_request.go    what is asked, and the limits to keep to
//	solution.go                    the answer, and its guarantee at any number of honest devices
//	bits.go                        Bits, Frontier: one common factor of all budgets, until they are used up
//	fewest_messages.go             the fewest messages for a variance ratio
//	least_variance.go              the least variance within a number of messages
//	option.go                      one choice of noise and scale: its messages, variance and certificate
//	sums.go                        Sums
//	sums_fullest_entries.go        the narrowest entries for a ratio, filled with noise bits
//	sums_fewest_noise_bits.go      the fewest noise bits for a ratio, or as many as the limits leave room for
//	sums_point.go                  one choice of noise, with the largest scales that the budget allows
//
// No guarantee relies on the search: a device certifies the encodings of an announcement again.
package calibrate
