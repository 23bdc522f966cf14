"""Campaigns of hostile inputs: a module a campaign, run by ``scripts/fuzz/hostile.py``.

Each has ``WARM``, command lines that are run once so that modules are imported before processes are forked, and
``case(random, folder, data)``, which writes an input into an empty folder and says what to ask of it.
"""
