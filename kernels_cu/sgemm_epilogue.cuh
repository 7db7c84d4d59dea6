// SGEMM: what becomes of a thread's sums, once the bias is added.
#pragma once

#include "largest.cuh"
#include "sgemm_tile.cuh"

#define EPILOGUE_STORE 0     // y[m, column + n] = sum
#define EPILOGUE_RELU 1      // y[m, column + n] = max(sum, 0); a NaN stays a NaN
#define EPILOGUE_GETMAX 2    // y[owners[m], column + n] = the largest of these over m, and of what was there
#define EPILOGUE_RESIDUAL 3  // y[m, column + n] = max(sum, 0) + a[m, n], for rows of as many values as columns
#define EPILOGUE_EXPERTS 4   // n = hidden * EXPERTS + e: y[m, column + hidden] = sum_e gate[m, e] * sum

// Where a thread's sums belong: its first row in its block, and its first column. Pointers are the block's.
struct Place {
    int row, column;
    int rows, columns;  // where the block's rows and all columns end
    float* y;           // from `column` of the output on
    int stride;         // the length of a row of y

    __device__ __forceinline__ int row_of(int m) const { return row + m / 4 * ROW_STEP + m % 4; }
    __device__ __forceinline__ int column_of(int n) const { return column + n / 4 * COLUMN_STEP + n % 4; }
    __device__ __forceinline__ float* row_of_y(int m) const { return y + static_cast<long long>(m) * stride; }
};

using Sums = float[TM][TN];

// Without a bias it adds zeros: sums that go straight into quads of the output lie in registers of the wrong banks, and
// up to a tenth of the multiplications would wait.
__device__ __forceinline__ void add_bias(Sums& sums, const Place& place, const float* bias) {
#pragma unroll
    for (int n = 0; n < TN; ++n) {
        const int column = place.column_of(n);
        const float value = BIAS && column < place.columns ? bias[column] : 0.0f;
#pragma unroll
        for (int m = 0; m < TM; ++m) sums[m][n] += value;
    }
}

__device__ __forceinline__ void apply_relu(Sums& sums) {
#pragma unroll
    for (int m = 0; m < TM; ++m) {
#pragma unroll
        for (int n = 0; n < TN; ++n) sums[m][n] = sums[m][n] < 0.0f ? 0.0f : sums[m][n];
    }
}

// x is what was multiplied, from the block's first row on.
__device__ __forceinline__ void add_rows(Sums& sums, const Place& place, const float* x) {
#pragma unroll
    for (int m = 0; m < TM; ++m) {
        if (place.row_of(m) >= place.rows) continue;
        const float* const row = x + static_cast<long long>(place.row_of(m)) * place.columns;
#pragma unroll
        for (int n = 0; n < TN; ++n) {
            if (place.column_of(n) < place.columns) sums[m][n] += row[place.column_of(n)];
        }
    }
}

__device__ __forceinline__ void store(const Sums& sums, const Place& place) {
    const bool aligned = place.stride % 4 == 0 && reinterpret_cast<unsigned long long>(place.y) % 16 == 0;
#pragma unroll
    for (int m = 0; m < TM; ++m) {
        if (place.row_of(m) >= place.rows) continue;
        float* out = place.row_of_y(place.row_of(m));
#pragma unroll
        for (int n = 0; n < TN; n += 4) {
            const int column = place.column_of(n);
            const float* quad = sums[m] + n;
            if (aligned && column + 3 < place.columns) {
                *reinterpret_cast<float4*>(out + column) = make_float4(quad[0], quad[1], quad[2], quad[3]);
            } else {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    if (column + j < place.columns) out[column + j] = quad[j];
                }
            }
        }
    }
}

// y holds zeros, or what is at least zero. Rows of one owner lie together: a thread goes down its rows, and writes
// once for each owner.
__device__ __forceinline__ void store_largest(const Sums& sums, const Place& place, const int* owners) {
    int owner[TM];
#pragma unroll
    for (int m = 0; m < TM; ++m) owner[m] = place.row_of(m) < place.rows ? owners[place.row_of(m)] : -1;
#pragma unroll
    for (int n = 0; n < TN; ++n) {
        if (place.column_of(n) >= place.columns) continue;
        int largest = 0;
#pragma unroll
        for (int m = 0; m < TM; ++m) {
            if (owner[m] < 0) continue;
            largest = max(largest, relu_bits(sums[m][n]));
            if (m + 1 < TM && owner[m] == owner[(m + 1) % TM]) continue;
            raise(place.row_of_y(owner[m]) + place.column_of(n), largest);
            largest = 0;
        }
    }
}

__device__ __forceinline__ void store_experts(const Sums& sums, const Place& place, const float* gate) {
    static_assert(4 % EXPERTS == 0, "a quad holds all experts of a value");
#pragma unroll
    for (int m = 0; m < TM; ++m) {
        const int row = place.row_of(m);
        if (row >= place.rows) continue;
        float weights[EXPERTS];
#pragma unroll
        for (int e = 0; e < EXPERTS; ++e) weights[e] = gate[row * EXPERTS + e];
        float* out = place.row_of_y(row);
#pragma unroll
        for (int n = 0; n < TN; n += EXPERTS) {
            float total = 0.0f;
#pragma unroll
            for (int e = 0; e < EXPERTS; ++e) total = fmaf(weights[e], sums[m][n + e], total);
            if (place.column_of(n) < place.columns) out[place.column_of(n) / EXPERTS] = total;
        }
    }
}
