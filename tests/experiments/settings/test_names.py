"""Names known to the flags are those of the registries."""

from typing import get_args

from experiments.settings import names
from models import METHODS
from models.networks.choice import NetworkName
from qlayers import datasets


def test_flags_know_the_registries():
    shipped = {
        m.name: m.paper.title if m.paper else names.WITHOUT_PAPER
        for m in METHODS.values()
    }
    listed = {
        name: title for title, of in names.METHODS_BY_PAPER.items() for name in of
    }
    assert listed == shipped
    known = (*names.GENERATED_DATASETS, *names.PUBLISHED_DATASETS, "folder")
    assert sorted(known) == sorted(datasets.names())
    assert set(names.PUBLISHED_DATASETS) == {
        name for name in datasets.names() if datasets.info(name).files
    } - {"folder"}
    assert get_args(NetworkName) == names.NETWORKS
