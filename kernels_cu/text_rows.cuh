// A row is three ready pieces end to end: what its label begins, the score, and what its label ends.
//
// All pieces lie end to end: of each label the first one, of each label the last one, then those of the scores.
#pragma once

constexpr int POINTS = 10001;  // scores in ten-thousandths, from 0 to 1

struct Pieces {
    int first, first_end, score, score_end, last, last_end;  // places among the bytes of all pieces

    __device__ __forceinline__ int size() const { return first_end - first + score_end - score + last_end - last; }

    // Of byte i of the row.
    __device__ __forceinline__ int place(int i) const {
        if (i < first_end - first) return first + i;
        i -= first_end - first;
        return i < score_end - score ? score + i : last + i - (score_end - score);
    }
};

// `at` says where each piece begins, and where the last one ends.
__device__ __forceinline__ Pieces pieces_of(const int* at, int labels, int label, int point) {
    const int* const last = at + labels + label;
    const int* const score = at + 2 * labels + point;
    return {at[label], at[label + 1], score[0], score[1], last[0], last[1]};
}
