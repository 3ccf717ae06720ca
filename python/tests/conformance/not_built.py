"""What the cases speak of that the product does not have yet."""

from __future__ import annotations

from typing import Any

OPERATORS = {
    "stitch": "stitch",
    "extend": "extend_lifetime",
    "extend_lifetime": "extend_lifetime",
    "quantize": "quantised windows",
    "progressive_quantize": "progressive windows",
    "repetitive_hopping_lifetime": "repetitive hopping windows",
    "detect": "pattern detection",
    "detect_afa": "pattern detection",
    "followed_by": "followed_by",
    "followed_by_immediate": "followed_by",
    "consecutive_pairs": "consecutive_pairs",
    "sessionize": "sessionize",
    "pivot": "pivot",
    "unpivot": "unpivot",
    "partition": "partitioned streams",
    "set_property": "asserted properties",
    "publish": "publish",
}

AGGREGATES = {
    "percentile_disc": "percentiles",
    "percentile_cont": "percentiles",
    "top_k": "top_k",
    "topk": "top_k",
    "single_or_default": "single_or_default",
    "stddev": "standard deviation",
    "standard_deviation": "standard deviation",
    "stddev_pop": "standard deviation",
    "population_standard_deviation": "standard deviation",
    "variance": "variance",
    "variance_pop": "variance",
    "population_variance": "variance",
    "product": "product",
    "sum_squares": "sum of squares",
    "average_squares": "average of squares",
    "max_by": "max_by",
    "min_by": "min_by",
}


def missing(case: dict[str, Any]) -> str | None:
    """Name the first thing that a case needs and that is not built, if any."""
    events = [event for stream in case["inputs"] for event in stream.get("events", [])]
    if any("partition" in event or event["kind"] == "low_watermark" for event in events):
        return "partitioned streams"
    return _missing_in(case["pipeline"])


def _missing_in(node: Any) -> str | None:
    if isinstance(node, list):
        return next(filter(None, map(_missing_in, node)), None)
    if not isinstance(node, dict):
        return None
    if node.get("op") in OPERATORS:
        return OPERATORS[node["op"]]
    if node.get("agg") in AGGREGATES:
        return AGGREGATES[node["agg"]]
    return next(filter(None, map(_missing_in, node.values())), None)
