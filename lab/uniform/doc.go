// Package uniform tests whether a shuffler's orders are uniformly random: every order of a release exactly as likely as
// any other, whatever the order before it and whatever came in which order. It is pure mathematics on permutations, and
// judges any shuffler.
//
// Every test is a bet. It goes through a release place by place and, before it looks at the item of a place, says how
// much likelier it takes each of the items that are left to be than others, from what it has seen so far. Its wealth is
// multiplied by the probability that it gave to the item that came, divided by that of a uniform draw from those that
// are left. In uniformly random orders that are independent of each other, the expectation of that factor is one given
// all that came before, whatever the test says. So the wealth is a nonnegative martingale that begins at one, as is an
// average of several, and by Ville's inequality it ever reaches 1/p with probability p at most. The p-value of a test
// is the inverse of the greatest wealth that it ever had: an upper bound for every number of releases and of items,
// with no asymptotics, and also if somebody looks at the verdict after each release and goes on until they like it
// (Ville, "Étude critique de la notion de collectif", 1939; Shafer, "Testing by betting", 2021). The tests share the
// rate of false alarms equally, so the bound holds for the whole verdict (Bonferroni).
//
// How likely a fault is to be found is another question, and is answered by simulation (Power).
package uniform
