"""The record of runs in Postgres: the only authority. See ``port.py`` for what it offers."""
