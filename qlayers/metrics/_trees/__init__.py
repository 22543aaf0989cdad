"""Tree loops for numba: boosting over sorted or counted features, forests over counts.

Everything here has scikit-learn's arithmetic: the same order of additions where sums of
real numbers decide, the same random stream for the order in which features are tried,
the same rules for leaves. `qlayers.metrics._trees_numpy` boosts in plain NumPy.
"""

from qlayers.metrics._trees.counted_features import boost_counted
from qlayers.metrics._trees.leaves import predict_boosted
from qlayers.metrics._trees.sorted_features import boost_sorted

__all__ = ["boost_counted", "boost_sorted", "predict_boosted"]
