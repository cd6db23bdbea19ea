"""``bvsi bench performance``: what discovery costs beside what else one could do, as ratios measured in one run."""
