"""Shapes with no data file: a file ``<name>.py`` here that defines ``surface()`` and ``COUNT`` adds one."""
