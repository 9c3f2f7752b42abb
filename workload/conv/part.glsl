// What a launch does of its rows: some columns and some terms, all unless they are
// many. lavapipe ends all loops of an invocation after 65535 rounds in total, so a
// round has four terms, and further launches have the other columns, or go on with
// the sums where one ended. Whoever includes this has the shape.
#ifndef MORE
const uint first_term = 0, first_col = 0;
#endif
const uint MostTerms = 1 << 16, MostRounds = 1 << 15; // as in the Go code

uint last_term() { return min(first_term + MostTerms, c * r * s); }

uint last_col(uint q) {
	uint rounds = min(MostTerms, c * r * s) / 4 + 4; // for 64 columns
	return min(first_col + MostRounds / rounds * 64, q);
}

uint ch, i, j; // the term

void to_term(uint term) {
	ch = term / (r * s);
	i = term / s % r;
	j = term % s;
}

void next_term() {
	bool line = ++j == s;
	j = line ? 0 : j;
	i += line ? 1 : 0;
	bool channel = i == r;
	i = channel ? 0 : i;
	ch += channel ? 1 : 0;
}
