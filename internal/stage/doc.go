// Package stage cuts a graph into stages that are run one after another, so that between two of
// them nothing runs and what has been computed is plain data. A checkpoint lies there. The root
// package calls it.
//
// Tasks are put into an order: by level, a task being one level above the highest of those it waits
// for, and within a level as in the graph. A flow has every order that data demands, so that the
// tasks one after another give what the graph gives. A stage is any number of tasks in a row: where
// they are cut changes neither the result nor what lies between them. Tasks of one level can all
// run at the same time, so that stages which end with a level leave devices the least time to wait.
//
// Data that lies across the end of a stage is resident. Of it a checkpoint has the pieces that were
// written and that a later task reads before one writes them anew, and outputs. Runtime.RunStages
// gives a stage as many tasks as took a quarter of the time between two checkpoints, and ends it
// with a level where one is near.
package stage
