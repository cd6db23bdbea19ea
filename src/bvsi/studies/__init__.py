"""Studies of the program itself: what it does with hostile inputs, and with faults at any moment."""
