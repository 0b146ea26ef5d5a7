"""`make faults`: injects faults into small real clusters and judges how the commands of make end."""
