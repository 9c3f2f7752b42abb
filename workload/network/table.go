package network

import (
	"bufio"
	"io"
	"math"
	"strconv"
)

// table writes CSV: a line with the names of columns, and one for each node. That has the number of the
// node, from 0 on, and what cells appends to it: each cell with a comma before it.
func table(to io.Writer, columns string, nodes int, cells func(line []byte, node int) []byte) error {
	w := bufio.NewWriter(to)
	_, err := w.WriteString("node," + columns + "\n")
	var line []byte
	for i := 0; i < nodes && err == nil; i++ {
		line = cells(strconv.AppendInt(line[:0], int64(i), 10), i)
		_, err = w.Write(append(line, '\n'))
	}
	if err != nil {
		return err
	}
	return w.Flush()
}

// number appends a comma and a float of 32 or 64 bits, with as few digits as read back to the same
// bits. Infinity, a distance without a path, is inf.
func number(line []byte, x float64, bits int) []byte {
	if line = append(line, ','); math.IsInf(x, 1) {
		return append(line, "inf"...)
	}
	return strconv.AppendFloat(line, x, 'g', -1, bits)
}

// WriteTable writes the ranks as CSV with the columns node and rank. Nodes are numbered from 0 on, which in
// files of MatrixMarket and METIS is one less than the number there.
func (j *rankingJob) WriteTable(w io.Writer) error {
	ranks := j.Ranks()
	return table(w, "rank", len(ranks), func(line []byte, i int) []byte { return number(line, ranks[i], 64) })
}

// WriteTable writes the features behind the last layer as CSV with the columns node, feature 0, feature 1 and so on.
// Nodes are numbered as in [rankingJob.WriteTable].
func (j *layerJob) WriteTable(w io.Writer) error {
	last := j.Result(len(j.results) - 1)
	columns := []byte("feature 0")
	for k := 1; k < last.Cols; k++ {
		columns = strconv.AppendInt(append(columns, ",feature "...), int64(k), 10)
	}
	return table(w, string(columns), last.Rows, func(line []byte, i int) []byte {
		for _, x := range last.Data[i*last.Cols : (i+1)*last.Cols] {
			line = number(line, float64(x), 32)
		}
		return line
	})
}

// WriteTable writes CSV with the columns node and closeness, or node, the medoid nearest to it and the distance.
// Nodes are numbered as in [rankingJob.WriteTable].
func (j *distancesJob) WriteTable(w io.Writer) error {
	if j.c.Problem == Closeness {
		return table(w, "closeness", j.n, func(line []byte, i int) []byte { return number(line, float64(j.close[i]), 32) })
	}
	medoids, labels := j.Medoids()
	return table(w, "medoid,distance", j.n, func(line []byte, i int) []byte {
		m := medoids[labels[i]]
		line = strconv.AppendInt(append(line, ','), int64(m), 10)
		return number(line, float64(j.distances[i*j.n+int(m)]), 32)
	})
}
