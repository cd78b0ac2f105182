"""Real processes for the chaos suite, and the questions it asks of them afterwards."""
