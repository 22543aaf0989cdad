"""The page on other libraries says what the installed ones have."""

import inspect
import re
from importlib.metadata import version
from pathlib import Path

import pytest

import qlayers

PAGE = (Path(__file__).parents[1] / "docs" / "peers.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|\n ").split(" | ")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| feature")
]
peer_needed = pytest.importorskip


def parameters(thing):
    return inspect.signature(thing).parameters


def quoted(column):
    """Everything in backticks in a column of the tables."""
    return [name for row in ROWS for name in re.findall(r"`([^`]+)`", row[column])]


def test_every_row_has_every_library():
    assert len(ROWS) > 30
    assert {len(row) for row in ROWS} == {6}


def test_our_names_and_arguments_exist():
    every = {
        name
        for public in qlayers.__all__
        if inspect.isclass(getattr(qlayers, public))
        for name in [
            *parameters(getattr(qlayers, public)),
            *dir(getattr(qlayers, public)),
        ]
    }
    for text in quoted(1):
        name = re.match(r"[A-Za-z_.]+", text)
        if name is None or text.startswith((".", '"')) or "." in name[0]:
            continue
        assert hasattr(qlayers, name[0]) or name[0] in every, text


def test_our_defaults_are_the_ones_that_the_page_names():
    ours = parameters(qlayers.VectorQuantizer)
    assert f"`revive_after={ours['revive_after'].default}`, the default" in PAGE
    assert f'`init="{ours["init"].default}"`, the default' in PAGE


def test_our_numbers_are_those_of_the_project():
    from experiments.settings.names import GENERATED_DATASETS
    from models import METHODS, pretrained_names

    ours = {row[0]: row[1] for row in ROWS}
    methods = ours["number of model families"]
    assert (
        methods.startswith(f"{len(METHODS) - 1} methods") and "self_sizing" in METHODS
    )
    words = {4: "four", 11: "eleven"}
    assert f"{words[len(GENERATED_DATASETS)]} of them" in ours["factor datasets"]
    models = ours["pretrained models to download"]
    assert f"{words[len(pretrained_names())]} in the repository" in models


def test_version_of_the_peer_is_the_installed_one():
    peer_needed("vector_quantize_pytorch")
    assert f"vector-quantize-pytorch {version('vector-quantize-pytorch')}" in PAGE


def test_names_and_arguments_of_the_peer_exist():
    peer = peer_needed("vector_quantize_pytorch")
    classes = [peer.VectorQuantize, peer.ResidualVQ, peer.FSQ, peer.LFQ]
    known = {name for each in classes for name in parameters(each)}
    known |= {*parameters(peer.VectorQuantize.forward)}
    for text in quoted(2):
        name = re.match(r"\w+", text)[0]
        assert hasattr(peer, name) or name in known or name == "torch", text
        for argument in re.findall(r"(\w+)=", text.partition("(")[2]):
            assert argument in known, text


def test_defaults_of_the_peer_are_the_ones_that_the_page_names():
    peer = peer_needed("vector_quantize_pytorch")
    theirs = peer.VectorQuantize(dim=4, codebook_size=8)
    assert theirs.ema_update
    assert theirs.rotation_trick
    assert parameters(peer.VectorQuantize)["kmeans_init"].default is False
    assert parameters(peer.VectorQuantize)["threshold_ema_dead_code"].default == 0


def test_the_peers_gaps_are_still_there():
    """Where these fail, the peer has caught up, and the page must say so."""
    peer = peer_needed("vector_quantize_pytorch")
    with pytest.raises(AssertionError, match="cosine"):
        peer.VectorQuantize(
            dim=4,
            codebook_size=8,
            use_cosine_sim=True,
            learnable_codebook=True,
            ema_update=False,
        )
    assert "squash" not in parameters(peer.FSQ)
    assert hasattr(peer.FSQ(levels=[4, 4]), "implicit_codebook")
