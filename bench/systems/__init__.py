# SPDX-License-Identifier: Apache-2.0
"""The systems that bench/run_sigma_vs_uvcc.py runs: a module each, with what it can run, what it needs, and a parser
of what it prints or writes."""
