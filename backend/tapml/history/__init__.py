"""What became of every test over time, in SQLite or PostgreSQL."""

from tapml.history.store import History, Recorder, check_database, open_history

__all__ = ["History", "Recorder", "check_database", "open_history"]
