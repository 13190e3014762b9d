"""A second implementation of docs/compute.md, for check_tasks.py."""
