"""The size of a batch, whatever it is made of."""

from __future__ import annotations

from collections import UserDict, namedtuple
from typing import Any

import pytest
import torch

from gputop.publisher.hooks.batch import samples_of

X = torch.zeros(6, 3)
Pair = namedtuple("Pair", "x y")


@pytest.mark.parametrize(
    ("batch", "samples"),
    [
        (X, 6),
        ([X, X[:2]], 6),
        ((X,), 6),
        (Pair(X, 1), 6),
        ({"a": X}, 6),
        (UserDict(a=X), 6),
        ([{"a": (X,)}], 6),
        (torch.tensor(1.0), None),
        ([], None),
        ({}, None),
        ("text", None),
        (7, None),
        (None, None),
        ([[[[[[X]]]]]], None),
    ],
)
def test_samples(batch: Any, samples: int | None) -> None:
    assert samples_of(batch) == samples
