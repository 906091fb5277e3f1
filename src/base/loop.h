/* loop.h - how a loop that is run, and not written out, is said in the IR and in plans: as a custom operator whose kernel
 * the runtime brings along. Shared by who writes it (onnx) and who runs it (runtime). It has
 *
 * inputs
 *   - the plan of its body, as bytes
 *   - how many trips there are at most, one i64; it may be absent
 *   - whether there is a first one, one bool; it may be absent
 *   - CARRIED values, and behind them what every trip is given alike
 * outputs
 *   - CARRIED values, as the last trip gives them
 *   - COLLECTED, of each the rows of all trips, one behind the other
 *   - where COUNTS is 1, how many trips there were, one i64: rows behind these are zeros; where it is 0, all rows are trips
 * a body
 *   - from the trip's number, one i64, the condition, one bool, CARRIED values and what is alike
 *   - to whether there is another trip, one bool, CARRIED values and COLLECTED rows
 *
 * MOST, if it is not negative, is a number of trips that are not to be exceeded. */
#ifndef HYP_BASE_LOOP_H
#define HYP_BASE_LOOP_H

#define HYP_LOOP_DOMAIN "hypatia"
#define HYP_LOOP_NAME "Loop"
#define HYP_LOOP_OPERATOR HYP_LOOP_DOMAIN "::" HYP_LOOP_NAME

enum { HYP_LOOP_PLAN, HYP_LOOP_TRIPS, HYP_LOOP_CONDITION, HYP_LOOP_FIRST }; /* inputs; the first that is carried */
enum { HYP_LOOP_DEEPEST = 8 }; /* loops in each other: a run has a few frames of the stack for each */

/* Attributes, each one integer. */
#define HYP_LOOP_CARRIED "carried"
#define HYP_LOOP_COLLECTED "collected"
#define HYP_LOOP_COUNTS "counts"
#define HYP_LOOP_MOST "most"

#endif
