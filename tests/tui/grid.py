"""Blocks put on a grid of cells, as a terminal would, with every overlap and overflow found."""

from __future__ import annotations

from rich.cells import cell_len

from gputop.tui.lines import Block, plain


def flatten(blocks: dict[str, Block], width: int, height: int) -> list[str]:
    """The rows of text; raises AssertionError where blocks overlap, leave the screen or have lines of another width."""
    taken: dict[tuple[int, int], str] = {}
    rows = [[" "] * width for _ in range(height)]
    for name, block in blocks.items():
        assert len(block.lines) == block.height, name
        assert 0 <= block.x <= width - block.width, (name, block[:4], width)
        assert 0 <= block.y <= height - block.height, (name, block[:4], height)
        for dy, line in enumerate(block.lines):
            text = plain(line)
            assert cell_len(text) == block.width, (name, dy, text)
            for x in range(block.x, block.x + block.width):
                assert (x, block.y + dy) not in taken, (name, taken[(x, block.y + dy)])
                taken[(x, block.y + dy)] = name
            if len(text) == block.width:
                rows[block.y + dy][block.x : block.x + block.width] = text
    return ["".join(row) for row in rows]
