"""``bvsi bench discovery``: classic equations at growing noise, bvsi at its defaults beside PySINDy with an oracle."""
