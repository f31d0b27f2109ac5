// Package fit fits private regressions to tables that people hand in, and keeps the ledger of what several fits of one
// table have spent: riffle fit.
//
// Reading, checking and naming are here; the mathematics is package estimate's.
package fit
