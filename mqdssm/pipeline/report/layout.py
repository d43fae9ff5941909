"""Layout of a graph in a picture.

Nodes do not overlap, and joined nodes are near each other.
Each connected part is laid out by stress majorization: distances in the picture follow distances in the
graph. Then nodes are pushed apart until no label covers another. Then the parts are put into rows. Equal
graphs give equal pictures.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from mqdssm.pipeline.validate.rules.graphs import find_components

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Points = NDArray[np.float64]

HEIGHT: Final = 46.0
"""Room of a node with its label, pixels."""
GAP: Final = 10.0
EDGE: Final = 42.0
"""Length of a link between two nodes that have no others, pixels."""
ROUNDS: Final = 150
PUSHES: Final = 400
SPREAD_AFTER: Final = 20
"""Number of pushes after which the points are spread, since the middle may have no room left."""
SPREAD: Final = 1.05
WIDTH_MIN: Final = 760.0


@dataclass(frozen=True, slots=True)
class Placement:
    """A picture's size, and where its nodes are.

    Attributes:
        points: x and y of each node, pixels from the top left corner.
        width: of the picture.
        height: of the picture.
    """

    points: tuple[tuple[float, float], ...]
    width: float
    height: float


def place_nodes(widths: Sequence[float], edges: Iterable[tuple[int, int]]) -> Placement:
    """Lay out a graph.

    Args:
        widths: room that each node needs with its label, pixels.
        edges: numbers of joined nodes; both ends differ.
    """
    near: list[set[int]] = [set() for _ in widths]
    for first_node, other in edges:
        near[first_node].add(other)
        near[other].add(first_node)
    boxes = []
    for part in find_components(dict(enumerate(near))):
        room = np.array([widths[node] + GAP for node in part])
        points = _push_apart(_place_part(part, near), room)
        low = (points - np.stack([room / 2, np.full(len(part), HEIGHT / 2)], axis=1)).min(axis=0)
        points -= low
        size = (points + np.stack([room / 2, np.full(len(part), HEIGHT / 2)], axis=1)).max(axis=0)
        boxes.append((part, points, float(size[0]), float(size[1])))
    return _pack_boxes(boxes, len(widths))


def _place_part(part: Sequence[int], near: Sequence[set[int]]) -> "Points":
    """Lay out a part by stress majorization, from points on a circle.

    See Gansner, Koren, North 2004.
    """
    count = len(part)
    if count == 1:
        return np.zeros((1, 2))
    distances = _measure_distances(part, near)
    angles = 2 * np.pi * np.arange(count) / count
    points = np.stack([np.cos(angles) * 1.6, np.sin(angles)], axis=1) * EDGE * np.sqrt(count)
    weights = 1 / np.where(distances == 0, 1, distances) ** 2
    np.fill_diagonal(weights, 0)
    inverse = np.linalg.pinv(np.diag(weights.sum(axis=1)) - weights)
    for _ in range(ROUNDS):
        apart = np.linalg.norm(points[:, None] - points[None], axis=2)
        ratios = np.where(apart > 1e-9, weights * distances / np.where(apart > 1e-9, apart, 1), 0)
        # from the right: products of a matrix and two columns, not of two matrices
        points = inverse @ (ratios.sum(axis=1)[:, None] * points - ratios @ points)
    return _turn_points(points)


def _turn_points(points: "Points") -> "Points":
    """Turn the points so that their picture is wider than high.

    Screens and labels are wider than high, too.
    """
    centred = points - points.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    signs = np.where(axes[np.arange(2), np.abs(axes).argmax(axis=1)] < 0, -1.0, 1.0)
    turned: Points = centred @ (axes * signs[:, None]).T
    return turned


def _measure_distances(part: Sequence[int], near: Sequence[set[int]]) -> "Points":
    """Return the shortest distances between nodes.

    A link is longer if its ends have more links.
    """
    index = {node: number for number, node in enumerate(part)}
    lengths = np.full((len(part), len(part)), np.inf)
    np.fill_diagonal(lengths, 0)
    for node in part:
        for other in near[node]:
            crowd = max(len(near[node]), len(near[other]))
            lengths[index[node], index[other]] = EDGE * (1 + np.sqrt(crowd) / 2)
    for middle in range(len(part)):  # Floyd and Warshall
        lengths = np.minimum(lengths, lengths[:, middle, None] + lengths[None, middle, :])
    return lengths


def _push_apart(points: "Points", widths: "Points") -> "Points":
    """Push nodes apart along the shorter way, until none covers another.

    Nodes are pushed at most `PUSHES` times, and spread now and then.
    """
    points = points.copy()
    room = (widths[:, None] + widths[None]) / 2
    # two nodes at one place go apart by their order: else both would stay
    order = np.sign(np.arange(len(points))[:, None] - np.arange(len(points))[None])
    for push in range(1, PUSHES + 1):
        x = points[:, None, 0] - points[None, :, 0]
        y = points[:, None, 1] - points[None, :, 1]
        over_x, over_y = room - np.abs(x), HEIGHT - np.abs(y)
        both = (over_x > 0.01) & (over_y > 0.01)
        np.fill_diagonal(both, val=False)
        if not both.any():
            break
        if push % SPREAD_AFTER == 0:
            points *= SPREAD
            continue
        sideways = both & (over_x < over_y)
        down = both & ~sideways
        side_x, side_y = np.where(x == 0, order, np.sign(x)), np.where(y == 0, order, np.sign(y))
        points[:, 0] += np.where(sideways, side_x * over_x / 2, 0).sum(axis=1)
        points[:, 1] += np.where(down, side_y * over_y / 2, 0).sum(axis=1)
    return points


def _pack_boxes(boxes: Sequence[tuple[Sequence[int], "Points", float, float]], count: int) -> Placement:
    """Put boxes into rows, from left to right, and return the places of all nodes."""
    area = sum(width * height for _, _, width, height in boxes)
    limit = max(WIDTH_MIN, float(np.sqrt(area)), *(width for _, _, width, _ in boxes), 0.0)
    positions = [(0.0, 0.0)] * count
    left = top = row = used = 0.0
    for part, points, width, height in boxes:
        if left and left + width > limit:
            left, top, row = 0.0, top + row + GAP, 0.0
        for node, (x, y) in zip(part, points.tolist(), strict=True):
            positions[node] = (round(left + x, 1), round(top + y, 1))
        left += width + GAP
        row = max(row, height)
        used = max(used, left - GAP)
    return Placement(tuple(positions), round(max(used, 1.0), 1), round(max(top + row, 1.0), 1))
