"""The outer problem: objectives, and one file per optimizer."""
