"""Peers that are libraries of their own: each a script, run by an interpreter that has it."""
