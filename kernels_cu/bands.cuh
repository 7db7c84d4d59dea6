// The order in which the tiles of a product are made: bands of BAND rows of tiles, and in a band column by column. What
// tiles that are made together share of both operands is then in the L2 cache.
#pragma once

constexpr int BAND = 16;

struct TileAt {
    int down, across;

    __device__ __forceinline__ TileAt(int number, int tiles_down, int tiles_across) {
        const int band = number / (BAND * tiles_across), in_band = number % (BAND * tiles_across);
        const int height = min(BAND, tiles_down - band * BAND);
        down = band * BAND + in_band % height;
        across = in_band / height;
    }
};
