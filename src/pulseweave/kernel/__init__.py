"""What everything else stands on. Standard library only; no state but the crash points."""
