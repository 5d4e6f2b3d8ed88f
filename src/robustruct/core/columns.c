/* Column files and templates: text to the words of tokens, words to the names of attributes.
 *
 * A token is a line, its columns are separated by blanks or tabs, and an empty line ends a sentence
 * (CoNLL, CRF++). Text is UTF-8; nothing is copied, words are offsets into the text. */
#include "names.h"

static const uint8_t *line_end(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *stop = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
    return stop ? stop : end;
}

/* Bytes of the blank at ``at``, or 0: what Python's str.isspace takes for one. */
static Index blank_at(const uint8_t *at, const uint8_t *end)
{
    if (*at < 0x80) return (*at >= 9 && *at <= 13) || (*at >= 28 && *at <= 32);
    if (end - at >= 2 && at[0] == 0xC2) return at[1] == 0x85 || at[1] == 0xA0 ? 2 : 0;
    if (end - at < 3) return 0;
    const uint32_t code = (uint32_t)at[0] << 16 | (uint32_t)at[1] << 8 | at[2];
    const bool blank = code == 0xE19A80 || (code >= 0xE28080 && code <= 0xE2808A) ||
                       code == 0xE280A8 || code == 0xE280A9 || code == 0xE280AF ||
                       code == 0xE2819F || code == 0xE38080;
    return blank ? 3 : 0;
}

static bool is_blank(const uint8_t *at, const uint8_t *end)
{
    while (at < end) {
        const Index size = blank_at(at, end);
        if (!size) return false;
        at += size;
    }
    return true;
}

static bool is_comment(const ColumnRules *rules, const uint8_t *at, const uint8_t *end)
{
    const Index size = rules->n_mark;
    return rules->has_comments && end - at >= size &&
           memcmp(at, rules->comment, (size_t)size) == 0 && !memchr(at, '\t', (size_t)(end - at));
}

/* Count the columns of a line; write where those before ``most`` begin and end. */
static Index split_line(const ColumnRules *rules, const uint8_t *text, const uint8_t *at,
                        const uint8_t *end, Index *begins, Index *ends)
{
    Index count = 0;
    while (true) {
        if (!rules->only_tabs)
            while (at < end && (*at == ' ' || *at == '\t')) at++;
        if (!rules->only_tabs && at == end) return count;
        const uint8_t *first = at;
        while (at < end && *at != '\t' && (rules->only_tabs || *at != ' ')) at++;
        if (begins && count < rules->most) {
            begins[count] = first - text;
            ends[count] = at - text;
        }
        count++;
        if (at == end) return count;
        at++;
    }
}

/* Counts of a text; see formats/tokens.py. */
enum { TOKENS, SENTENCES, USED, LINES, BAD_LINE, BAD_COUNT, EXPECTED, N_COUNTS };

static void end_sentence(const ColumnArrays *out, Index s, Index n_tokens, Index width, Index begin,
                         Index end)
{
    if (!out) return;
    out->offsets[s + 1] = n_tokens;
    out->widths[s] = width;
    out->spans[2 * s] = begin;
    out->spans[2 * s + 1] = end;
}

static void set_counts(Index *counts, Index tokens, Index sentences, Index used, Index lines)
{
    counts[TOKENS] = tokens;
    counts[SENTENCES] = sentences;
    counts[USED] = used;
    counts[LINES] = lines;
}

/* Walk through the lines up to the last end of a sentence, or a line with a wrong number of columns;
 * ``out`` is NULL where tokens are only counted. */
static void walk(const ColumnRules *rules, const uint8_t *text, Index size, bool at_end,
                 const ColumnArrays *out, Index *counts)
{
    const uint8_t *end = text + size, *next = NULL;
    Index n = 0, s = 0, first = 0, width = 0, line = 0; /* sentence s has tokens first .. n-1 */
    Index begin = 0;                                    /* of its lines */
    bool comments = false;                              /* that wait for a sentence */
    for (Index i = 0; i < N_COUNTS; i++) counts[i] = 0;
    for (const uint8_t *at = text; at < end; at = next) {
        const uint8_t *stop = line_end(at, end);
        next = stop < end ? stop + 1 : end;
        line++;
        while (stop > at && stop[-1] == '\r') stop--;
        if (is_blank(at, stop)) {
            if (n > first) {
                end_sentence(out, s++, n, width, begin, next - text);
                first = n;
                comments = false;
            }
            if (comments) continue;
            begin = next - text;
            set_counts(counts, n, s, begin, line);
            continue;
        }
        if (is_comment(rules, at, stop)) {
            comments = true;
            continue;
        }
        Index *begins = out ? out->begins + n * rules->most : NULL;
        Index *ends = out ? out->ends + n * rules->most : NULL;
        const Index count = split_line(rules, text, at, stop, begins, ends);
        if (n > first ? count != width : count != rules->most && count != rules->least) {
            counts[BAD_LINE] = line;
            counts[BAD_COUNT] = count;
            counts[EXPECTED] = n > first ? width : rules->most;
            return;
        }
        width = count;
        if (out) {
            out->lines[n] = line;
            for (Index c = count; c < rules->most; c++) begins[c] = ends[c] = 0;
        }
        n++;
    }
    if (!at_end || n == first) return;
    end_sentence(out, s, n, width, begin, size);
    set_counts(counts, n, s + 1, size, line);
}

/* Count the complete sentences with their tokens and lines. */
API Index count_columns(const ColumnRules *rules, const uint8_t *text, Index size, bool at_end,
                        Index *counts)
{
    walk(rules, text, size, at_end, NULL, counts);
    return 0;
}

/* The tokens of sentences that count_columns has counted, in its first ``size`` bytes. */
API Index read_columns(const ColumnRules *rules, const uint8_t *text, Index size,
                       const ColumnArrays *out)
{
    Index counts[N_COUNTS];
    out->offsets[0] = 0;
    walk(rules, text, size, true, out, counts);
    return 0;
}

/* Number the words of one column by a table of names. */
API Index number_words(Index handle, const uint8_t *text, const ColumnArrays *tokens, Index column,
                       int32_t *numbers)
{
    for (Index i = 0; i < tokens->n_tokens; i++) {
        const Index at = tokens->begins[i * tokens->n_columns + column];
        const Index stop = tokens->ends[i * tokens->n_columns + column];
        numbers[i] = number_of(names_at(handle), text + at, stop - at, true);
        if (numbers[i] == NO_NUMBER) return NO_MEMORY;
    }
    return 0;
}

/* ``begin`` and the code ``row`` tokens away, for the tokens of sentences first .. last-1. Beyond the
 * sentence, at a distance of d, it is marks + d - 1. */
API Index shift_codes(Index first, Index last, const Index *offsets, const int32_t *codes,
                      Index begin, Index row, Index marks, int32_t *out)
{
    for (Index s = first; s < last; s++) {
        const Index lo = offsets[s], hi = offsets[s + 1];
        for (Index i = lo; i < hi; i++) {
            const Index from = i + row;
            Index code;
            if (from < lo)
                code = marks + lo - from - 1;
            else
                code = from < hi ? begin + codes[from] : marks + from - hi;
            *out++ = (int32_t)code;
        }
    }
    return 0;
}

/* ------------------------------------------------------------------------- templates */

/* Hash table of pairs and their numbers; a slot with number -1 is empty. */
typedef struct {
    uint64_t *keys;
    int32_t *numbers;
    Index mask;
} Pairs;

/* Number the different pairs (numbers[i], codes[i]) of n tokens in place of numbers; ``first`` gets
 * a token of each. Return how many there are. */
static Index number_pairs(Pairs *pairs, uint64_t seed, Index n, int32_t *numbers,
                          const int32_t *codes, Index *first)
{
    Index count = 0;
    memset(pairs->numbers, 0xFF, (size_t)(pairs->mask + 1) * sizeof *pairs->numbers);
    for (Index i = 0; i < n; i++) {
        const uint64_t key = (uint64_t)(uint32_t)numbers[i] << 32 | (uint32_t)codes[i];
        Index at = (Index)mixed(key ^ seed, seed | 1) & pairs->mask;
        while (pairs->numbers[at] >= 0 && pairs->keys[at] != key) at = (at + 1) & pairs->mask;
        if (pairs->numbers[at] < 0) {
            pairs->keys[at] = key;
            pairs->numbers[at] = (int32_t)count;
            first[count++] = i;
        }
        numbers[i] = pairs->numbers[at];
    }
    return count;
}

/* The number of the name that pieces begin .. end-1 make at a token; NO_NUMBER without memory. */
static int32_t name_at(const TemplateArrays *template, Index begin, Index end, Index token,
                       Names *names, Buffer *buffer)
{
    buffer->size = 0;
    for (Index p = begin; p < end; p++) {
        const int32_t piece = template->pieces[p];
        const Index text =
            piece >= 0 ? piece : template->codes[(-1 - piece) * template->n_tokens + token];
        const Index at = template->offsets[text];
        if (!append(buffer, template->texts + at, template->offsets[text + 1] - at))
            return NO_NUMBER;
    }
    return number_of(names, buffer->bytes, buffer->size, true);
}

/* Write the number of each token's name by each line of a template into out (tokens, lines). A name
 * is put together once for all tokens at which its macros read the same. */
API Index apply_template(const TemplateArrays *template, Index handle, int32_t *out)
{
    Names *names = names_at(handle);
    const Index n = template->n_tokens, n_lines = template->n_lines;
    Pairs pairs = {.mask = 1};
    while (pairs.mask < 2 * n) pairs.mask = 2 * pairs.mask + 1;
    pairs.keys = NEW(uint64_t, pairs.mask + 1);
    pairs.numbers = NEW(int32_t, pairs.mask + 1);
    int32_t *numbers = NEW(int32_t, n), *name_of = NEW(int32_t, n + 1);
    Index *first = NEW(Index, n + 1);
    Buffer buffer = {NEW(uint8_t, 1024), 0, 1024};
    bool enough = pairs.keys && pairs.numbers && numbers && name_of && first && buffer.bytes;
    for (Index l = 0; enough && l < n_lines; l++) {
        const Index begin = template->line_offsets[l], end = template->line_offsets[l + 1];
        Index count = min_index(n, 1);
        first[0] = 0;
        for (Index i = 0; i < n; i++) numbers[i] = 0;
        for (Index p = begin; p < end; p++)
            if (template->pieces[p] < 0)
                count = number_pairs(&pairs, seed_of(names), n, numbers,
                                     template->codes + (-1 - template->pieces[p]) * n, first);
        for (Index j = 0; enough && j < count; j++) {
            name_of[j] = name_at(template, begin, end, first[j], names, &buffer);
            enough = name_of[j] != NO_NUMBER;
        }
        for (Index i = 0; enough && i < n; i++) out[i * n_lines + l] = name_of[numbers[i]];
    }
    free(pairs.keys);
    free(pairs.numbers);
    free(numbers);
    free(name_of);
    free(first);
    free(buffer.bytes);
    return enough ? 0 : NO_MEMORY;
}
