package proc

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// Pids returns the children of this process that still run and have a role, "worker" or
// "keeper", or any if it is empty.
func Pids(role string) (out []int) {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil
	}
	for _, e := range tasks {
		text, err := os.ReadFile("/proc/self/task/" + e.Name() + "/children")
		if err != nil {
			continue // the thread ended
		}
		for f := range strings.FieldsSeq(string(text)) {
			env, err := os.ReadFile("/proc/" + f + "/environ") // empty once it has ended
			pid, failed := strconv.Atoi(f)
			if err == nil && failed == nil && bytes.Contains(env, []byte(roleVar+"="+role)) {
				out = append(out, pid)
			}
		}
	}
	return out
}
