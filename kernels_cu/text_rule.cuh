// docs/tokenizer.md without a scan: where tokens start and stop is decided by the few bytes around a place.
//
// A mask has a bit for each of 64 bytes in a row. `m >> k` says of each byte what holds of the one k behind it,
// `m << k` of the one k before it. What comes out holds for the middle 32 bytes: the rule looks back over 8
// bytes, and ahead over 13 (’ve, n’t and a symbol).
#pragma once

enum Class {  // what a byte can be; a byte may be several
    ALNUM, HIGH, TAIL, QUOTE, SIGN,
    LETTER_N, LETTER_T, LETTER_E, LETTER_L, LETTERS_SDM, LETTERS_RV,
    BYTE_80, BYTE_99, BYTE_E2, UNDER_90, BYTE_F0, F1_TO_F3, BYTE_F4,
    CLASSES
};

__device__ __forceinline__ unsigned classes(int byte) {
    const int low = 'A' <= byte && byte <= 'Z' ? byte + 32 : byte;
    const bool alnum = ('a' <= low && low <= 'z') || ('0' <= low && low <= '9');
    const bool tail = 0x80 <= byte && byte <= 0xBF;
    return alnum << ALNUM | (byte >= 0x80) << HIGH | tail << TAIL | (byte == '\'') << QUOTE |
           ('!' <= byte && byte <= '~' && !alnum && byte != '\'') << SIGN |
           (low == 'n') << LETTER_N | (low == 't') << LETTER_T | (low == 'e') << LETTER_E | (low == 'l') << LETTER_L |
           (low == 's' || low == 'd' || low == 'm') << LETTERS_SDM | (low == 'r' || low == 'v') << LETTERS_RV |
           (byte == 0x80) << BYTE_80 | (byte == 0x99) << BYTE_99 | (byte == 0xE2) << BYTE_E2 |
           (tail && byte < 0x90) << UNDER_90 | (byte == 0xF0) << BYTE_F0 |
           (0xF1 <= byte && byte <= 0xF3) << F1_TO_F3 | (byte == 0xF4) << BYTE_F4;
}

struct Marks {
    unsigned starts;  // where a token starts
    unsigned stops;   // where one under way has ended: at a start, a separator, and where no byte is looked at
};

// The marks of the middle 32 of 64 bytes; `of` gives the mask of a class.
template <class Masks>
__device__ __forceinline__ Marks marks(Masks of) {
    using Mask = unsigned long long;
    const Mask quote = of(QUOTE), tail = of(TAIL), e2 = of(BYTE_E2), sign = of(SIGN), any = of(ALNUM) | of(HIGH);

    const Mask curly = e2 & (of(BYTE_80) >> 1) & (of(BYTE_99) >> 2);
    const Mask three = e2 & (tail >> 1) & (tail >> 2) & ~curly;
    const Mask second = of(UNDER_90) >> 1, later = tail >> 1;
    const Mask four = ((of(BYTE_F0) & later & ~second) | (of(F1_TO_F3) & later) | (of(BYTE_F4) & second)) &
                      (tail >> 2) & (tail >> 3);
    const Mask leads = three | curly | four;
    const Mask word = any & ~(leads | leads << 1 | leads << 2 | four << 3);

    // An apostrophe stands at its last byte, so that what follows is one further.
    const Mask curled = curly << 2, apostrophe = quote | curled;
    const Mask n_t = apostrophe & ((of(LETTER_T) & ~(word >> 1)) >> 1);
    const Mask split = of(LETTER_N) & ((n_t & quote) >> 1 | (n_t & curled) >> 3);
    const Mask follows = word & ~split;  // a separator comes before n't

    const Mask l = of(LETTER_L), free = ~(follows >> 1);
    const Mask one = of(LETTERS_SDM) & free;
    const Mask two = ((of(LETTER_E) & (of(LETTERS_RV) << 1)) | (l & (l << 1))) & free;
    const Mask suffix = apostrophe & (one >> 1 | two >> 2);
    const Mask ended = ((suffix << 1) & one) | ((suffix << 2) & two);  // the last byte of a suffix

    // Within a word: behind a word byte that is not a suffix's, and before one.
    const Mask before = word & ~ended;
    const Mask joins = apostrophe & ~suffix & (follows >> 1) & ((quote & (before << 1)) | (curled & (before << 3)));
    const Mask alone = apostrophe & ~joins;
    const Mask starts = split | (word & ~((word | suffix | joins) << 1)) | (alone & quote) | (alone & curled) >> 2 |
                        sign | three | four;
    const Mask stops = starts | ~(any | quote | sign);
    return {static_cast<unsigned>(starts >> 16), static_cast<unsigned>(stops >> 16)};
}
