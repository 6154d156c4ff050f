"""Loops of the neighbor search on a GPU: factors of scores, the smallest scores of a row, the order by differences."""

from __future__ import annotations

import math

import numpy as np
from numba import cuda

from manifoldry._core.device import device_kernel

MAX_KEPT = 256
"""Maximum length of a list."""
SCORES_PER_THREAD, MAX_NEW, MAX_THREADS = 4, 128, 256
"""Scores that a thread reads between two barriers, how many entries are added to a list before it is sorted again, and
the maximum number of threads: one step adds at most their product to the slots."""
N_SLOTS = 2048
"""A power of two, at least ``MAX_KEPT + MAX_NEW + SCORES_PER_THREAD * MAX_THREADS``."""
BOUND_COLUMNS = 8192
"""Scores of a row, at most and up to a quarter, that give a bound for the others: with all of 39,000 the selection took
70 % longer."""
FILL_END, KEEP_END, CELL, LO, HI, FIRST, LAST, STRIDE, LEFT, RIGHT, SCORES = range(N_FIELDS := 11)
"""Columns of a table of tiles: ends of their threads in `fill_factors` and of their blocks in `keep_smallest`, then
cell, queries and points of a tile, the length of its rows, and where its factors and its scores begin."""
LANES, RANKED_ROWS = 32, 4
"""Threads that rank the candidates of a row, and rows of a block of these."""
LARGEST, NOBODY = 2**63 - 1, 2**31 - 1
"""A score and a number that follow all others."""
MAX_COORDINATE = 1e6
"""Coordinates beyond this, in units of the usual extent, are clipped, so that no square overflows."""


@cuda.jit(device=True)
def _centered(value, center, scale):  # type: ignore[no-untyped-def]
    return min(max((value - center) * scale, -MAX_COORDINATE), MAX_COORDINATE)


@device_kernel(
    [
        f"void({data}[:, ::1], {data}[:, ::1], int32[::1], int32[::1], float64[:, ::1], float64, int64[:, ::1], int64, "
        f"{real}[::1], {real}[::1], float64[::1])"
        for data in ("float32", "float64")
        for real in ("float32", "float64")
    ]
)
def fill_factors(X, Q, order, table, centers, scale, tiles, depth, left, right, norms):  # type: ignore[no-untyped-def]
    """Fill the factors of scores |x|^2 - 2 q.x around the center of a tile's cell, and ``norms``, the squares |q|^2.

    The left factor of a tile (hi - lo, depth) belongs to the rows ``order[lo:hi]`` of Q and the right one (depth,
    stride) to the rows ``table[first:last]`` of X. The depth is the number of columns and at least one for |x|^2.
    """
    i, t, n_columns = cuda.grid(1), 0, X.shape[1]
    if i >= tiles[len(tiles) - 1, FILL_END]:
        return
    while i >= tiles[t, FILL_END]:
        t += 1
    if t > 0:
        i -= tiles[t - 1, FILL_END]
    cell, stride, n_points, norm = tiles[t, CELL], tiles[t, STRIDE], tiles[t, LAST] - tiles[t, FIRST], 0.0
    if i < n_points:
        row, start = table[tiles[t, FIRST] + i], tiles[t, RIGHT] + i
        for j in range(n_columns):
            value = _centered(np.float64(X[row, j]), centers[cell, j], scale)
            right[start + j * stride] = value
            norm += value * value
        right[start + n_columns * stride] = norm
        for j in range(n_columns + 1, depth):
            right[start + j * stride] = 0.0
    else:
        i -= n_points
        query = tiles[t, LO] + i
        row, start = order[query], tiles[t, LEFT] + i * depth
        for j in range(n_columns):
            value = _centered(np.float64(Q[row, j]), centers[cell, j], scale)
            left[start + j] = -2.0 * value
            norm += value * value
        left[start + n_columns] = 1.0
        for j in range(n_columns + 1, depth):
            left[start + j] = 0.0
        norms[query] = norm


@cuda.jit(device=True)
def _score(scores, start, column, width, flip):  # type: ignore[no-untyped-def]
    """Return the bits of a score as an integer in the order of the scores; the largest beyond the row."""
    if column >= width:
        return np.int64(LARGEST)
    bits = np.int64(scores[start + column])
    return bits if bits >= 0 else bits ^ flip  # negative numbers are stored by magnitude


@cuda.jit(device=True)
def _four_scores(scores, start, column, width, flip):  # type: ignore[no-untyped-def]
    """Return four scores of a thread: loads under way at once hide that memory is slow."""
    n_threads = cuda.blockDim.x
    return (
        _score(scores, start, column, width, flip),
        _score(scores, start, column + n_threads, width, flip),
        _score(scores, start, column + 2 * n_threads, width, flip),
        _score(scores, start, column + 3 * n_threads, width, flip),
    )


@cuda.jit(device=True)
def _add(score, column, last, n_kept, slot_scores, slot_columns, count):  # type: ignore[no-untyped-def]
    """Add a score below the last of the list; the slots that it finds do not matter after sorting."""
    if score < last:
        slot = n_kept + cuda.atomic.add(count, 0, 1)
        slot_scores[slot] = score
        slot_columns[slot] = column


@cuda.jit(device=True)
def _sort(slot_scores, slot_columns, n):  # type: ignore[no-untyped-def]
    """Sort the first n slots by (score, column) in a bitonic network."""
    thread, n_threads = cuda.threadIdx.x, cuda.blockDim.x
    size = 2
    while size < n:
        size *= 2
    for i in range(n + thread, size, n_threads):
        slot_scores[i] = LARGEST
        slot_columns[i] = NOBODY
    cuda.syncthreads()
    length = 2
    while length <= size:
        gap = length >> 1
        while gap > 0:
            for i in range(thread, size // 2, n_threads):
                low = 2 * i - (i & (gap - 1))
                high = low + gap
                a, b = slot_scores[low], slot_scores[high]
                c, d = slot_columns[low], slot_columns[high]
                if (a > b or (a == b and c > d)) == ((low & length) == 0):
                    slot_scores[low], slot_scores[high] = b, a
                    slot_columns[low], slot_columns[high] = d, c
            cuda.syncthreads()
            gap >>= 1
        length *= 2


@cuda.jit(device=True)
def _bound(scores, start, width, flip, n_kept, slot_scores, slot_columns):  # type: ignore[no-untyped-def]
    """Return a bound above ``n_kept`` scores of the row or more: the smallest scores of as many threads are below it.

    So few others are that the list is hardly ever sorted before the row has been read. The first columns are the points
    of the nearest cells.
    """
    thread, n_threads, smallest = cuda.threadIdx.x, cuda.blockDim.x, LARGEST
    if n_kept > n_threads or width <= SCORES_PER_THREAD * n_threads:
        return LARGEST
    for column in range(thread, min(width // 4, BOUND_COLUMNS), SCORES_PER_THREAD * n_threads):
        a, b, c, d = _four_scores(scores, start, column, width, flip)
        smallest = min(smallest, min(min(a, b), min(c, d)))
    slot_scores[thread], slot_columns[thread] = smallest, thread
    _sort(slot_scores, slot_columns, n_threads)
    bound = slot_scores[n_kept - 1]
    cuda.syncthreads()  # all have read it before the list takes its place
    return min(bound, LARGEST - 1) + 1


@device_kernel(
    [f"void({bits}[::1], int64[:, ::1], int64, int64, int64[:, ::1], int32[:, ::1])" for bits in ("int32", "int64")]
)
def keep_smallest(scores, tiles, base, flip, kept, columns):  # type: ignore[no-untyped-def]
    """Merge the smallest scores of the rows of tiles into the lists, the first of which is that of row ``base``.

    ``scores`` are bits of floating-point numbers, and ``flip`` the largest integer of their type. A list holds scores
    and the numbers of their points, from FIRST to LAST, in ascending order: (`LARGEST`, -1) if it is not full. A block
    owns a row. Its list and the new entries lie in slots. A score is compared only with the last of the list and with a
    bound of the smallest ones, the few below both are added in any order, and sorting decides. Later points do not
    replace equal earlier ones.
    """
    slot_scores = cuda.shared.array(N_SLOTS, np.int64)
    slot_columns = cuda.shared.array(N_SLOTS, np.int32)
    count = cuda.shared.array(1, np.int32)
    thread, n_threads, n_kept = cuda.threadIdx.x, cuda.blockDim.x, kept.shape[1]
    i, t = np.int64(cuda.blockIdx.x), 0
    while i >= tiles[t, KEEP_END]:
        t += 1
    if t > 0:
        i -= tiles[t - 1, KEEP_END]
    first, width = tiles[t, FIRST], tiles[t, LAST] - tiles[t, FIRST]
    row, start = tiles[t, LO] - base + i, tiles[t, SCORES] + i * tiles[t, STRIDE]
    bound = _bound(scores, start, width, flip, n_kept, slot_scores, slot_columns)
    for slot in range(thread, n_kept, n_threads):
        slot_scores[slot] = kept[row, slot]
        slot_columns[slot] = columns[row, slot]
    if thread == 0:
        count[0] = 0
    cuda.syncthreads()
    last = min(bound, slot_scores[n_kept - 1])
    column = thread
    for step in range(0, width, SCORES_PER_THREAD * n_threads):
        a, b, c, d = _four_scores(scores, start, column, width, flip)
        if min(min(a, b), min(c, d)) < last:
            _add(a, first + column, last, n_kept, slot_scores, slot_columns, count)
            _add(b, first + column + n_threads, last, n_kept, slot_scores, slot_columns, count)
            _add(c, first + column + 2 * n_threads, last, n_kept, slot_scores, slot_columns, count)
            _add(d, first + column + 3 * n_threads, last, n_kept, slot_scores, slot_columns, count)
        column += SCORES_PER_THREAD * n_threads
        cuda.syncthreads()
        n_new = count[0]
        cuda.syncthreads()  # all have read the count before it changes
        if n_new > MAX_NEW or (n_new > 0 and step + SCORES_PER_THREAD * n_threads >= width):
            _sort(slot_scores, slot_columns, n_kept + n_new)
            last = min(bound, slot_scores[n_kept - 1])
            if thread == 0:
                count[0] = 0
            cuda.syncthreads()
    for slot in range(thread, n_kept, n_threads):
        kept[row, slot] = slot_scores[slot]
        columns[row, slot] = slot_columns[slot]


@device_kernel(
    [
        f"void({data}[:, ::1], {data}[:, ::1], int32[::1], int64, int32[:, ::1], int32[::1], int64, "
        "float64[:, ::1], int32[:, ::1])"
        for data in ("float32", "float64")
    ]
)
def rank_candidates(X, Q, order, lo, columns, table, others, nearest, indices):  # type: ignore[no-untyped-def]
    """Write the nearest of each list by (squared distance, index); infinity and -1 where it is too short.

    Row i of ``columns`` holds positions in ``table`` (-1: none) of candidates of row ``order[lo + i]`` of Q, whose own
    number is left out if it is to list only the ``others``.
    """
    squares = cuda.shared.array((RANKED_ROWS, MAX_KEPT), np.float64)
    numbers = cuda.shared.array((RANKED_ROWS, MAX_KEPT), np.int32)
    lane, local = cuda.threadIdx.x % LANES, cuda.threadIdx.x // LANES
    row, width, k = cuda.blockIdx.x * RANKED_ROWS + local, columns.shape[1], nearest.shape[1]
    inside = row < columns.shape[0]
    query = order[lo + row] if inside else 0
    if inside:
        for i in range(lane, width, LANES):
            number, total = NOBODY, math.inf
            if columns[row, i] >= 0:
                number = table[columns[row, i]]
            if number != NOBODY and not (others and number == query):
                total = 0.0
                for j in range(X.shape[1]):
                    difference = np.float64(X[number, j]) - np.float64(Q[query, j])
                    total += difference * difference
            else:
                number = NOBODY
            squares[local, i] = total
            numbers[local, i] = number
    cuda.syncthreads()
    if inside:
        for i in range(lane, width, LANES):
            square, number, rank = squares[local, i], numbers[local, i], 0
            for other in range(width):
                a, b = squares[local, other], numbers[local, other]
                if a < square or (a == square and (b < number or (b == number and other < i))):
                    rank += 1
            if rank < k:
                nearest[query, rank] = square
                indices[query, rank] = number if number != NOBODY else -1


@device_kernel(f"void({', '.join(3 * ['float64[:, ::1], int32[:, ::1]'])})")
def merge_lists(distances, indices, more, numbers, nearest, merged):  # type: ignore[no-untyped-def]
    """Write the nearest of two lists, each by (distance, index), and what both hold once: a thread per row."""
    i, first, second = cuda.grid(1), 0, 0
    if i < len(nearest):
        for slot in range(nearest.shape[1]):
            a, b = distances[i, first], more[i, second]
            p, q = indices[i, first], numbers[i, second]
            ahead = a < b or (a == b and p <= q)
            nearest[i, slot] = a if ahead else b
            merged[i, slot] = p if ahead else q
            second += 1 if not ahead or (a == b and p == q) else 0
            first += 1 if ahead else 0


@device_kernel("void(float32[:, ::1], int32[::1], int64[::1], float32[:, ::1], float32[:, ::1])")
def average_cells(rows, members, starts, centers, means):  # type: ignore[no-untyped-def]
    """Write the mean of each cell, by a thread per cell and column in the order of the members; a center if empty."""
    i, n_columns = cuda.grid(1), rows.shape[1]
    cell, j = i // n_columns, i % n_columns
    if cell < len(means):
        total, lo, hi = 0.0, starts[cell], starts[cell + 1]
        for position in range(lo, hi):
            total += rows[members[position], j]
        means[cell, j] = total / (hi - lo) if hi > lo else centers[cell, j]
