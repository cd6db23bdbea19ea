"""Likelihoods whose parts live on the workers of a Dask cluster."""

from bvsi.cluster.client import check_client, connect, dashboard
from bvsi.cluster.likelihood import ClusterLikelihood
from bvsi.cluster.setup import cluster_likelihood
from bvsi.cluster.stored import Stored, seen_by_workers, sources
from bvsi.cluster.tasks import over

__all__ = [
    "ClusterLikelihood",
    "Stored",
    "check_client",
    "cluster_likelihood",
    "connect",
    "dashboard",
    "over",
    "seen_by_workers",
    "sources",
]
