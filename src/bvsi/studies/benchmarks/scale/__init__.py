"""``bvsi bench scale``: discoveries at the sizes that others publish, beside plain weak-form least squares."""
