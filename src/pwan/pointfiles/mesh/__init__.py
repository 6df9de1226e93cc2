"""Meshes: OBJ, OFF and STL."""
