"""``bvsi bench honesty``: how often "consistent" stands beside a wrong answer, and an alarm beside a right one."""
