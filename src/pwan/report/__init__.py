"""Figures: functions from arrays to image files. matplotlib's file backend only, so no display is needed."""
