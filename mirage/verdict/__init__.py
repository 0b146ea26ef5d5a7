"""The verdict on a run: figures of what the emulation added, their bounds, reasons, errors of the metrics; and a run's results."""
