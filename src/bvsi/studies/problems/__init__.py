"""The paper's cases, ready to run."""
